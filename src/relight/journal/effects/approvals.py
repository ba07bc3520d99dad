"""Approvals: which tool calls wait for a person, and the question that is asked.

The question shows the whole input of the call, or says that it is cut, and ends with the call's id and a digest of the
whole input: a decision holds for that call with that input only. In a program's own loop it is also bound to the step
that requested the call.
"""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Final

from relight.journal.codec import encoded
from relight.values.status import Asking

_DESCRIPTIVE: Final = ("command", "cmd", "file_path", "path", "url")
"""arguments that best describe a call, in this order"""
MAX_SHOWN: Final = 8000
"""characters of a call's input in a question; longer input is cut, and the question says so"""
_DIGEST_LENGTH: Final = 16
QUESTION: Final = "approve "


def matches(patterns: Sequence[str], tool: str, arguments: Any) -> bool:
    """Whether a call waits. A pattern is a tool, or a tool and its input: `Bash`, `Bash(git push*)`."""
    called = f"{tool}({input_text(arguments)})"
    return any(fnmatch.fnmatchcase(tool, pattern) or fnmatch.fnmatchcase(called, pattern) for pattern in patterns)


def input_text(arguments: Any) -> str:
    """The input of a call as one text."""
    if not isinstance(arguments, dict):
        return str(arguments or "")
    for name in _DESCRIPTIVE:
        if isinstance(arguments.get(name), str):
            return str(arguments[name])
    return json.dumps(arguments, ensure_ascii=False, sort_keys=True)


def question_of(call: str, tool: str, arguments: Any) -> str:
    """The question about one call: all of its input, the most descriptive argument first."""
    words = input_text(arguments)
    rest = {name: value for name, value in arguments.items() if value != words} if isinstance(arguments, dict) else {}
    if rest and not (words.startswith("{") and json.loads(words) == arguments):
        words += f"\nwith {json.dumps(rest, ensure_ascii=False, sort_keys=True)}"
    if len(words) > MAX_SHOWN:
        words = f"{words[:MAX_SHOWN]} ... CUT HERE: the input has {len(words):,} characters"
    return f"{QUESTION}{tool}: {words} {mark_of(call, arguments)}"


def mark_of(call: str, arguments: Any) -> str:
    """The end of a question: the call's id and a digest of its whole input."""
    whole = json.dumps(arguments, ensure_ascii=False, sort_keys=True, default=str)
    return f"[{call} {sha256(whole.encode('utf-8', 'surrogatepass')).hexdigest()[:_DIGEST_LENGTH]}]"


def approval_slot(asked_seq: int, call: str, tool: str, arguments: dict[str, Any]) -> str:
    """The key of a decision: that call, of that step, with exactly these arguments."""
    digest = sha256(encoded([tool, arguments])).hexdigest()
    return f"call:{asked_seq}:{call}:{digest}"


def as_asked(question: str | None) -> str:
    """A question as a person reads it, without the call's id and digest."""
    if not (question or "").startswith(QUESTION) or not (question or "").endswith("]"):
        return question or ""
    return (question or "").rpartition(" [")[0] or question or ""


def is_about(question: str, call: str) -> bool:
    """Whether it is the question about this call, whatever its input."""
    found = question.rpartition(" [")[2].removesuffix("]").rpartition(" ")
    return question.startswith(QUESTION) and call in (found[0], found[2])  # 0.1.0 wrote no digest


def asks_approval(question: str | None, asking: Asking | None) -> bool:
    """Whether the session waits for a decision about a tool call. (A program's own question may begin with any
    text.)"""
    return asking.kind == "approval" if asking is not None else (question or "").startswith(QUESTION)


def cure_of(question: str | None, asking: Asking | None, name: str) -> str:
    """The command that answers a waiting session."""
    if asks_approval(question, asking):
        return f"relight approve {name}"
    return f"relight send {name} {'|'.join(asking.choices) if asking is not None and asking.choices else 'ANSWER'}"
