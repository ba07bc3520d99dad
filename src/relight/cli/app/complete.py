"""Shell completion of references: session names and ids, or the labels of one session.

Click takes longer to import than the answer takes to find, so the usual question (a verb and the beginning of a
reference) is answered here; click answers all others.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from relight.library.facade import Relight

TAKES_REF: Final = frozenset(
    {
        "show", "tail", "checkpoints", "can-resume", "resume", "fork", "rewind", "restore", "undo", "diff", "settle",
        "send", "attach", "approve", "deny", "stop", "label", "acknowledge", "archive", "clear", "rm", "verify",
        "export",
    }
)  # fmt: skip
_MAX: Final = 100
_NOT_PLAIN: Final = frozenset("\"'\\:")
_FORMS: Final = {"bash": "plain,{}\n", "zsh": "plain\n{}\n{}\n", "fish": "plain,{}\t{}\n"}

Found = tuple[str, str]
"""text to insert, and its description"""


def answered(environment: Mapping[str, str]) -> bool:
    """Print completions in the format of click's scripts; False if the question is left to click."""
    shell, _, action = environment.get("_RELIGHT_COMPLETE", "").partition("_")
    typed = _typed(shell, environment.get("COMP_WORDS", ""), environment.get("COMP_CWORD", ""))
    if action != "complete" or shell not in _FORMS or typed is None:
        return False
    for value, meaning in completions(None, typed):
        sys.stdout.write(_FORMS[shell].format(value, meaning))
    return True


def _typed(shell: str, line: str, position: str) -> str | None:
    """The beginning of a reference right after a verb that takes one; None for any other command line."""
    words = line.split()
    typed = position if shell == "fish" else "".join(words[2:3])  # fish passes the word itself, the others its index
    if (shell != "fish" and position != "2") or words[2:] != ([typed] if typed else []):
        return None
    is_plain = words[1:] and words[1] in TAKES_REF and not typed.startswith("-") and not _NOT_PLAIN & set(line)
    return typed if is_plain else None


def completions(store: str | None, incomplete: str) -> list[Found]:
    """Sessions, or after an `@` the labels of one. No error is raised: a completing shell cannot show it."""
    from relight import wiring
    from relight.errors import RelightError

    try:
        with wiring.open(store, create=False) as rl:
            return _labels(rl, incomplete) if "@" in incomplete else _sessions(rl, incomplete)
    except RelightError:
        return []


def _sessions(rl: Relight, incomplete: str) -> list[Found]:
    # Names first; an id is offered for a nameless session, or once the beginning of one is typed.
    found = [info for info in rl.sessions.list(limit=_MAX) if info.status != "archived"]
    named = [(info.name, info.status) for info in found if info.name and info.name.startswith(incomplete)]
    by_id = [
        (info.id[:8], info.status) for info in found if info.id.startswith(incomplete) and (incomplete or not info.name)
    ]
    return [*named, *by_id]


def _labels(rl: Relight, incomplete: str) -> list[Found]:
    session, _, label = incomplete.partition("@")
    labels = {one.label: one for one in rl.history.checkpoints(session) if one.label and one.label.startswith(label)}
    return [(f"{session}@{one.label}", f"@{one.seq}") for one in labels.values()]
