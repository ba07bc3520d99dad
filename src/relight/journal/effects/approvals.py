"""Approvals: which tool calls wait for a person, and the question that is asked.

The question shows the whole input of the call, or says that it is cut, and ends with the call's id and a digest of the
tool and its whole input: a decision holds for that input only. In a program's own loop it is also bound to the step
that requested the call; of a coding agent, to its native session, so that neither a fork nor a rewind can use it again,
and to a time.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any, Final, Literal

import msgspec

from relight.journal.codec import encoded
from relight.values.status import Asking

_DESCRIPTIVE: Final = ("command", "cmd", "file_path", "filePath", "path", "url")
"""arguments that best describe a call, in this order"""
MAX_SHOWN: Final = 8000
"""characters of a call's input in a question; longer input is cut, and the question says so"""
QUESTION: Final = "approve "
EXPIRY_SECONDS: Final = 7 * 86_400.0
"""an approval that was not given within it, or given and not used within it, counts as denied"""

Standing = Literal["asked", "allow", "deny", "expired"]
"""the state of a question: not decided, decided, or expired"""


class Filed(msgspec.Struct, frozen=True, array_like=True):
    """What is stored as the answer to a question about a coding agent's call."""

    answer: Literal["asked", "allow", "deny"]
    """asked: there is none yet; the call was deferred, so it has not run"""
    until_us: int
    """an answer that is not given by then, or an allowance that is not used by then, is a denial"""
    native: str
    """the agent's native session at that time, as `session_digest`"""


def session_digest(native: str | None) -> str:
    """A digest of a native session's id. The id itself may look like a secret, and would be redacted."""
    return sha256((native or "").encode()).hexdigest()


def filed(value: Any) -> Filed | None:
    """A stored answer; None for anything else, such as those of 0.1.0, whose calls ask again."""
    try:
        return msgspec.convert(value, Filed)
    except msgspec.ValidationError:
        return None


def standing(value: Any, *, native: str | None, now_us: int) -> Standing | None:
    """The state of a question by its stored answer; None if there is no answer that holds for this native session."""
    found = filed(value)
    if found is None or (found.answer != "asked" and found.native != session_digest(native)):
        return None
    return "expired" if found.answer != "deny" and now_us >= found.until_us else found.answer


def matches(patterns: Sequence[str], tool: str, arguments: Any, also: Sequence[str] = ()) -> bool:
    """Whether a call waits. A pattern is a tool, or a tool and its input: `Bash`, `Bash(git push*)`. `also`: what other
    agents call this tool. The case of a tool's name is ignored, so that a pattern holds after a hand-over too."""
    text = input_text(arguments)
    called = [
        form for name in (tool, *also) for form in (name, name.lower(), f"{name}({text})", f"{name.lower()}({text})")
    ]
    return any(fnmatch.fnmatchcase(one, form) for one in called for pattern in patterns for form in _forms(pattern))


def _forms(pattern: str) -> tuple[str, str]:
    name, bracket, rest = pattern.partition("(")
    return pattern, f"{name.lower()}{bracket}{rest}"


def input_text(arguments: Any) -> str:
    """The input of a call as one text."""
    if not isinstance(arguments, dict):
        return str(arguments or "")
    for name in _DESCRIPTIVE:
        if isinstance(arguments.get(name), str):
            return str(arguments[name])
    return _json_text(arguments)


def _json_text(value: Any, default: Callable[[Any], str] | None = None) -> str:
    from json import dumps  # imported here: every command imports this module, and few ask for an approval

    return dumps(value, ensure_ascii=False, sort_keys=True, default=default)


def question_of(call: str, tool: str, arguments: Any) -> str:
    """The question about one call: all of its input, the most descriptive argument first."""
    words = input_text(arguments)
    rest = {name: value for name, value in arguments.items() if value != words} if isinstance(arguments, dict) else {}
    if rest and words != _json_text(arguments):
        words += f"\nwith {_json_text(rest)}"
    if len(words) > MAX_SHOWN:
        words = f"{words[:MAX_SHOWN]} ... CUT HERE: the input has {len(words):,} characters"
    return f"{QUESTION}{tool}: {words} [{call} {input_digest(tool, arguments)}]"


def input_digest(tool: str, arguments: Any) -> str:
    """A digest of a call's tool and whole input: a decision about one input is none about another."""
    return sha256(_json_text([tool, arguments], str).encode("utf-8", "surrogatepass")).hexdigest()


def has_digest(question: str, digest: str) -> bool:
    """Whether the question is about this input, in whichever call. (Its text may have been redacted.)"""
    return question.startswith(QUESTION) and question.endswith(f" {digest}]")


def approval_slot(asked_seq: int, call: str, tool: str, arguments: dict[str, Any]) -> str:
    """The key of a decision: that call, of that step, with exactly these arguments."""
    digest = sha256(encoded([tool, arguments])).hexdigest()
    return f"call:{asked_seq}:{call}:{digest}"


def as_asked(question: str | None) -> str:
    """A question as a person reads it: the call's input in words, without its id and digest."""
    if not (question or "").startswith(QUESTION) or not (question or "").endswith("]"):
        return question or ""
    text = (question or "").rpartition(" [")[0] or question or ""
    call, colon, asked = text.partition(": ")
    first, named, rest = asked.rpartition("\nwith ")
    return f"{call}{colon}{first}{named}{_in_words(rest)}"


def _in_words(text: str) -> str:
    """Arguments written as JSON as names and values; any other text as it is. (It is stored as JSON, in which a secret
    is recognised by its name.)"""
    if not text.startswith("{"):
        return text
    from json import loads  # imported here, as above

    try:
        given = loads(text)
    except ValueError:
        return text
    if not isinstance(given, dict) or _json_text(given) != text:  # nothing that it says may be left out: a name twice
        return text
    names = ((name if name.isidentifier() else _json_text(name), _json_text(value)) for name, value in given.items())
    return ", ".join(f"{name} {value}" for name, value in names) or "without input"


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
