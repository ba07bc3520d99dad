"""The statuses of a session, and the one table of allowed transitions.

Every status change is checked by `allowed`. Quiet, unseen or in doubt are not statuses: they are derived and never
stored.
"""

from __future__ import annotations

from typing import Any, Final, Literal, get_args

import msgspec

Status = Literal["queued", "spawning", "working", "waiting", "completed", "failed", "halted", "terminated", "archived"]
STATUSES: Final[tuple[Status, ...]] = get_args(Status)

TRANSITIONS: Final[dict[Status, frozenset[Status]]] = {
    "queued": frozenset({"spawning", "working", "terminated", "archived"}),
    "spawning": frozenset({"working", "queued", "failed", "terminated"}),
    "working": frozenset({"waiting", "queued", "completed", "failed", "halted", "terminated"}),
    "waiting": frozenset({"queued", "spawning", "working", "failed", "terminated"}),
    "completed": frozenset({"queued", "spawning", "working", "archived"}),
    "failed": frozenset({"queued", "spawning", "working", "archived"}),
    "halted": frozenset({"queued", "spawning", "working", "archived"}),
    "terminated": frozenset({"queued", "spawning", "working", "archived"}),
    "archived": frozenset(),
}
ENDED: Final[frozenset[Status]] = frozenset({"completed", "failed", "halted", "terminated", "archived"})
FINISHED: Final[frozenset[Status]] = frozenset({"completed", "archived"})
"""nothing more is expected; a failed, halted or terminated session has ended but may still continue"""
LIVE: Final[frozenset[Status]] = frozenset({"spawning", "working"})


def allowed(before: Status, after: Status) -> bool:
    """Whether a session may change from `before` to `after`. Staying is not a transition."""
    return after in TRANSITIONS[before]


REASON_LENGTH: Final = 16_000
"""maximum length of a stored reason or failure text"""
_HEADLINE: Final = 300


def bounded_text(text: str) -> str:
    """A reason as stored, with all its lines; a very long one is cut in the middle and marked."""
    text = text.strip()
    if len(text) <= REASON_LENGTH:
        return text
    # The beginning names the error and the end of a traceback names the cause, so the middle goes.
    half = REASON_LENGTH // 2 - 50
    return f"{text[:half]}\n[cut: {len(text) - 2 * half:,} characters]\n{text[-half:]}"


def first_line(text: str | None) -> str:
    """The first line of a reason, as a person reads it: the stored `left` is a word for programs."""
    first = (text or "").strip().partition("\n")[0].rstrip()
    return "left unfinished by its program" if first == "left" else first


def headline(text: str | None) -> str:
    """The first line of a reason, for tables and notes."""
    first = first_line(text)
    return first if len(first) <= _HEADLINE else first[: _HEADLINE - 1] + "…"


class Failure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why something failed, in machine-readable form."""

    kind: str = msgspec.field(name="class")
    """rate_limit, auth, context_limit, agent_exit, lost, exception, ..."""
    text: str = ""
    """the error message"""
    fields: dict[str, str | int | float | bool | None] = {}
    """details by kind: reset_at, exit_code, signal, type"""


class Asking(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Details of the question of a waiting session."""

    kind: Literal["answer", "approval"] = "answer"
    """approval: of a tool call, decided with approve or deny"""
    key: str = ""
    """key under which the answer is filed"""
    choices: list[str] = []
    """the allowed answers; empty: any text"""
    default: list[Any] = []
    """at most one: the answer if none was given by the wakeup time"""


class StatusChange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A status with the fields that belong to it."""

    status: Status
    reason: str | None = None
    """for users; tables show its first line"""
    failure: Failure | None = None
    result: object = None
    """the value given to `complete`; JSON"""
    question: str | None = None
    """what a waiting session asks"""
    wake_us: int | None = None
    """when a queued session may start, or a waiting one stops waiting; microseconds since 1970"""
    asking: Asking | None = None
    """details of the question, if a program asks through `ask` or an approval"""
