"""What becomes of a queued session whose owner is lost: from a head and evidence to a status, or nothing.

Normally it is requeued, and the ordinary claim decides who continues. Exceptions: a session that a person wanted to end
is ended; one that was started repeatedly without progress has failed; and a plain program, whose effects are not known
to be repeatable, ends if no retries were allowed.
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
"""attempts in a row without a new step"""
MAX_PROGRESS_STEPS: Final = 200
"""steps that are searched for progress"""
NO_PROGRESS: Final[frozenset[StepKind]] = frozenset({"attempt", "status"})


def loss_reason(head: Head, *, owner_gone: bool | None, now: Instant) -> str | None:
    """Why no process works on a session that claims to be working; None if one does, or if it has no queue."""
    if head.queue_position is None or head.status not in LIVE:
        return None
    lease = head.lease
    if lease is None:
        return "it had no owner"
    if owner_gone:
        return f"its process died ({lease.owner.label})"
    if lease.expired(now):
        return f"its owner stopped renewing the lease ({lease.owner.label})"
    return None


def after_loss(
    identity: Identity, head: Head, why: str, *, latest: Sequence[Step], has_transcript: bool, retries: int | None
) -> StatusChange:
    """Its new status. `latest`: its last steps, at most MAX_PROGRESS_STEPS; `has_transcript`: a coding agent,
    whose messages are recorded; `retries`: how many deaths are allowed, if limited."""
    if identity.stop_attempt == head.attempt:
        return StatusChange(status="terminated", reason=BY_A_PERSON)
    failure = Failure(kind="lost", text=why)
    starts = starts_without_progress(head, latest)
    # Without this bound, a session that crashes its worker would be requeued for ever and take down one worker after
    # another.
    if starts >= MAX_STARTS:
        reason = f"started {starts} times without a new step; the last time {why}"
        return StatusChange(status="failed", reason=reason, failure=failure)
    if not has_transcript and retries == 0 and is_plain(head, latest):
        reason = f"{why} while it ran; what it had done is not known"
        return StatusChange(status="terminated", reason=reason, failure=failure)
    return StatusChange(status="queued", reason=why, failure=failure)


def starts_without_progress(head: Head, latest: Sequence[Step]) -> int:
    """Attempts since the program last recorded anything."""
    if not latest:
        return head.attempt
    moved = [step.attempt for step in latest if step.kind not in NO_PROGRESS]
    known = latest[0].attempt - 1 if latest[0].seq > 1 else 0
    return head.attempt - max(moved, default=known)


def is_plain(head: Head, latest: Sequence[Step]) -> bool:
    """Whether it may be a program that does not use the library, so that `working` was recorded by its supervisor."""
    return head.status == "working" and bool(latest) and latest[-1].kind == "status"
