"""Approvals: which tool calls wait for a person, and what the person is asked.

The question names the call by its id, so a decision holds for that call and for no other.
"""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Sequence
from typing import Any, Final

_WORDS: Final = ("command", "cmd", "file_path", "path", "url")
"""arguments that say best what a call is about"""
_LENGTH: Final = 300
QUESTION: Final = "approve "


def matches(patterns: Sequence[str], tool: str, arguments: Any) -> bool:
    """Does a call wait? A pattern is a tool, or a tool and what it is asked: `Bash`, `Bash(git push*)`."""
    called = f"{tool}({words_of(arguments)})"
    return any(fnmatch.fnmatchcase(tool, pattern) or fnmatch.fnmatchcase(called, pattern) for pattern in patterns)


def words_of(arguments: Any) -> str:
    """What a call is asked to do, as one text."""
    if not isinstance(arguments, dict):
        return str(arguments or "")
    for name in _WORDS:
        if isinstance(arguments.get(name), str):
            return str(arguments[name])
    return json.dumps(arguments, ensure_ascii=False, sort_keys=True)


def question_of(call: str, tool: str, arguments: Any) -> str:
    """What a person is asked about one call."""
    return f"{QUESTION}{tool}: {words_of(arguments)[:_LENGTH]} [{call}]"


def is_about(question: str, call: str) -> bool:
    """Is it the question about this call?"""
    return question.startswith(QUESTION) and question.endswith(f" [{call}]")


def cure_of(question: str | None, name: str) -> str:
    """The command that answers what a session waits with."""
    return f"relight approve {name}" if (question or "").startswith(QUESTION) else f"relight send {name} ANSWER"
