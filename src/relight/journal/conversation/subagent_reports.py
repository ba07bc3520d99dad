"""What an agent is told about its sub-agents after a death: which finished, which were cut off, which never began."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from relight.journal.formats.format import Format
from relight.values.call import OUTCOME_UNKNOWN, Intent
from relight.values.view import Call, Result, Text

_CALLS: Final = 12
_FILES: Final = 12
_WORDS: Final = 120
_TEXT: Final = 100_000
_SAYING: Final = ("command", "cmd", "file_path", "filePath", "path", "url", "pattern", "prompt", "description")
"""arguments that say best what a call does"""


def report_of(format: Format, messages: Sequence[dict[str, Any]]) -> str:
    """The last text of a conversation: all that the model said since the last result or prompt."""
    said: list[str] = []
    for view in reversed(format.read(list(messages))):
        if view.role in ("user", "tool"):
            break
        if view.role == "assistant":
            said[:0] = [block.text for block in view.blocks if isinstance(block, Text)]
    return "\n".join(said)[:_TEXT]


def not_begun_text() -> str:
    """The result of a call whose sub-agent has left no trace: no call of it began, since each is recorded before."""
    return "not run: the process died before this sub-agent had made a call; ask for it again"


def perhaps_begun_text(others: Sequence[str]) -> str:
    """The result of such a call, if sub-agents are known of which the call that began them is not."""
    which = f"{OUTCOME_UNKNOWN}. The process died; this sub-agent may be one of these, or has not run."
    return " ".join([which, *others])


def interrupted_text(
    name: str,
    format: Format,
    messages: Sequence[dict[str, Any]],
    hooked: Sequence[Intent],
    *,
    changed: Sequence[str] | None,
    how_to_continue: str | None,
) -> str:
    """What is known of a sub-agent that was cut off: its calls, what may have changed, and how it can be continued.
    `hooked`: calls without an outcome that a hook alone has reported."""
    done, running = _calls(format, messages)
    running += [_words(one.name, one.arguments) for one in hooked]
    parts = [f"{OUTCOME_UNKNOWN}. The process died while sub-agent {name} was at work; it gave no report."]
    parts.append(f"Calls it finished: {_listed(done)}." if done else "It had finished no call.")
    if running:
        parts.append(f"Cut off, and perhaps done or half done: {_listed(running)}.")
    if changed is None:
        parts.append("Which files it changed is not known.")
    elif changed:
        more = f" and {len(changed) - _FILES} more" if len(changed) > _FILES else ""
        parts.append(f"Files changed since, by it or by others: {', '.join(changed[:_FILES])}{more}.")
    else:
        parts.append("No captured file has changed since.")
    if how_to_continue is not None:
        parts.append(f"It has its conversation: {how_to_continue}.")
    return " ".join(parts)


def note_of(finished: Mapping[str, str], cut: Sequence[str]) -> str:
    """One text about several sub-agents."""
    parts = ["[relight] The process died and was started again; no sub-agent is running now."]
    done = "had finished; do not run it again. Its report:"
    parts += [f"Sub-agent {name} {done}\n{text}" for name, text in finished.items()]
    return "\n\n".join([*parts, *cut])


def _calls(format: Format, messages: Sequence[dict[str, Any]]) -> tuple[list[str], list[str]]:
    """Calls with a result and calls without one, in words."""
    asked: dict[str, str] = {}
    answered: set[str] = set()
    for view in format.read(list(messages)):
        for block in view.blocks:
            if isinstance(block, Call):
                asked[block.id] = _words(block.name, block.arguments)
            elif isinstance(block, Result):
                answered.add(block.call)
    done = [words for call, words in asked.items() if call in answered]
    return done, [words for call, words in asked.items() if call not in answered]


def _words(name: str, arguments: Any) -> str:
    given = arguments if isinstance(arguments, dict) else {}
    said = next((given[name] for name in _SAYING if isinstance(given.get(name), str)), "")
    line = " ".join(str(said).split())
    return f"{name} ({line[:_WORDS]})" if line else name


def _listed(calls: Sequence[str]) -> str:
    earlier = f"{len(calls) - _CALLS} others, then " if len(calls) > _CALLS else ""
    return earlier + "; ".join(calls[-_CALLS:])
