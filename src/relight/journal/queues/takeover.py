"""What becomes of a session of a queue whose owner is lost. Pure: from a head and evidence to a status, or nothing.

Recovery is only "put it back in line": the ordinary claim then decides who goes on. The exceptions are told to a
person: a session that a person wanted to end ends; one that was started again and again without getting any further has
failed; and a plain program, of which nobody knows what it would do twice, ends where somebody said: no retries.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from relight.values.lease import Instant
from relight.values.session import Head, Identity
from relight.values.status import LIVE, Failure, StatusChange
from relight.values.step import Step, StepKind

BY_A_PERSON: Final = "stopped by relight stop"
MAX_STARTS: Final = 10
"""without a single new step"""
LOOK_BACK: Final = 200
"""steps that are looked at for progress"""
_NO_PROGRESS: Final[frozenset[StepKind]] = frozenset({"attempt", "status"})


def lost_because(head: Head, *, owner_gone: bool | None, now: Instant) -> str | None:
    """Why nobody is at work any more on a session that says so; None where somebody is, or it stands in no line."""
    if head.place is None or head.status not in LIVE:
        return None
    lease = head.lease
    if lease is None:
        return "nobody owned it any more"
    if owner_gone:
        return f"its process died ({lease.owner.label})"
    if lease.expired(now):
        return f"its owner stopped renewing the lease ({lease.owner.label})"
    return None


def after_loss(
    identity: Identity, head: Head, why: str, *, latest: Sequence[Step], speaks: bool, retries: int | None
) -> StatusChange:
    """What it becomes. `latest`: its last steps, at most LOOK_BACK; `speaks`: a coding agent, whose words are recorded;
    `retries`: how many deaths it may survive, where somebody said so."""
    if identity.stop_attempt == head.attempt:
        return StatusChange(status="terminated", reason=BY_A_PERSON)
    failure = Failure(kind="lost", text=why)
    starts = starts_without_progress(head, latest)
    if starts >= MAX_STARTS:
        reason = f"started {starts} times without a new step; the last time {why}"
        return StatusChange(status="failed", reason=reason, failure=failure)
    if not speaks and retries == 0 and is_plain(head, latest):
        reason = f"{why} while it ran; what it had done is not known"
        return StatusChange(status="terminated", reason=reason, failure=failure)
    return StatusChange(status="queued", reason=why, failure=failure)


def starts_without_progress(head: Head, latest: Sequence[Step]) -> int:
    """Attempts since anything was recorded that a program did."""
    if not latest:
        return head.attempt
    moved = [step.attempt for step in latest if step.kind not in _NO_PROGRESS]
    known = latest[0].attempt - 1 if latest[0].seq > 1 else 0
    return head.attempt - max(moved, default=known)


def is_plain(head: Head, latest: Sequence[Step]) -> bool:
    """May it be a program that does not use the library? Then its supervisor, and not itself, said that it works."""
    return head.status == "working" and bool(latest) and latest[-1].kind == "status"
