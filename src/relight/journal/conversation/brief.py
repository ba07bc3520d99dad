"""The brief: a prompt built from the journal for an agent whose native conversation is lost.

Task, last messages, the last calls with their results, effects in doubt, changed files. Bounded: it is a prompt, and
the journal may be of any length.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from relight.journal.formats.format import Format, ProviderDict
from relight.values.call import Call
from relight.values.view import Call as Asked
from relight.values.view import Message, Result, Text

SAID: Final = 6
CALLS: Final = 20
FILES: Final = 60
TEXT: Final = 1500
LINE: Final = 300


def brief(
    *,
    task: str | None,
    messages: Sequence[ProviderDict],
    format: Format,
    doubtful: Sequence[Call] = (),
    files: Sequence[str] = (),
    prompt: str | None = None,
    subagents: str | None = None,
) -> str:
    """The prompt that replaces a lost conversation."""
    view = format.read(messages)
    parts = [
        "You are taking over a task that another process of yours began; it died, and its conversation cannot be"
        " loaded. This is what is known. Look at the files before you change anything; do not repeat what was done.",
        _section("Task", [task or _first_prompt(view) or "(not recorded)"], TEXT),
        _section("What you said, oldest first", _said(view), TEXT),
        _section("The last tool calls", _calls(view), LINE),
        _section(
            "Outcome unknown (each of these may or may not have taken effect; verify before you retry)",
            [f"{call.name} {call.arguments}" for call in doubtful],
            LINE,
        ),
        _section("Files changed so far", _cut(files, FILES), LINE),
        subagents or "",
        prompt if prompt is not None else "Continue the task from here.",
    ]
    return "\n\n".join(part for part in parts if part)


def _section(title: str, lines: Sequence[str], most: int) -> str:
    if not lines:
        return ""
    return "\n".join([f"{title}:", *(f"- {_short(line, most)}" for line in lines)])


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]} [... {len(text) - most} more characters]"


def _cut(lines: Sequence[str], most: int) -> list[str]:
    return [*lines[:most], *([f"and {len(lines) - most} more"] if len(lines) > most else [])]


def _first_prompt(view: Sequence[Message]) -> str | None:
    for message in view:
        for block in message.blocks if message.role == "user" else ():
            if isinstance(block, Text) and block.text.strip():
                return block.text
    return None


def _said(view: Sequence[Message]) -> list[str]:
    said = [
        block.text
        for message in view
        if message.role == "assistant"
        for block in message.blocks
        if isinstance(block, Text) and block.text.strip()
    ]
    return said[-SAID:]


def _calls(view: Sequence[Message]) -> list[str]:
    results = {block.call: block for message in view for block in message.blocks if isinstance(block, Result)}
    calls = [block for message in view for block in message.blocks if isinstance(block, Asked)]
    return [_call_line(call, results.get(call.id)) for call in calls[-CALLS:]]


def _call_line(call: Asked, result: Result | None) -> str:
    asked = _short(f"{call.name} {call.arguments}", LINE // 2)
    if result is None:
        return f"{asked} -> no result"
    return f"{asked} -> {result.status}: {_short(result.text, LINE // 2)}"
