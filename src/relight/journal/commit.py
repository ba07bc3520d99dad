"""The commit plan: from a head and a draft to the next step and head, or a refusal.

Every store calls `plan_commit` inside its own transaction, on the head it has just read there, and writes the result:
one step row and one head row. So the rules (epoch, transitions, numbering, digest) exist once, for every store.
"""

from __future__ import annotations

from typing import Any

import msgspec

from relight.errors import Conflict
from relight.journal import leases, limits
from relight.journal.chain import digest_of
from relight.values.call import OpenEffect
from relight.values.lease import Instant
from relight.values.session import Head
from relight.values.status import ENDED, LIVE, allowed
from relight.values.step import Committed, Draft, Step


def plan_commit(head: Head, draft: Draft, *, at_us: int, now: Instant) -> Committed:
    """Decide one commit. Raises LeaseHeld, LeaseLost or Conflict; nothing may be written then."""
    if draft.claim is not None:
        owned = leases.take(head, draft.claim, now)
    else:
        leases.check_writer(head, draft)
        owned = head
    seq = head.seq + 1
    # Times never go backwards within a session, even if the wall clock does: readers sort and subtract them.
    at_us = max(at_us, head.updated_us)
    view = draft.view
    if view is None:
        base, since = head.head, head.since
        message_count, turns = head.message_count + draft.messages_added, head.turns + draft.turns_added
        open_ = _open_after(head, draft, seq, at_us) if head.open or draft.opened else ()
    else:
        base, since, message_count, turns, open_ = view.head, view.since, view.message_count, view.turns, view.open
    if draft.kind == "reset":
        since = seq
    attempt = head.attempt if draft.attempt is None else draft.attempt.number
    columns = (
        head.session,
        seq,
        draft.kind,
        at_us,
        attempt,
        base,
        since,
        message_count,
        turns,
        open_,
        draft.label,
        draft.key,
    )
    step = Step(*columns, digest_of(head.digest, columns, draft.body), draft.body)
    after = msgspec.structs.replace(
        owned,
        seq=seq,
        head=seq if draft.kind != "rewind" else base,
        digest=step.digest,
        since=since,
        message_count=message_count,
        turns=turns,
        open=open_,
        attempt=attempt,
        resumed_from=head.resumed_from if draft.attempt is None else draft.attempt.resumed_from,
        usage=head.usage if draft.usage is None else head.usage + draft.usage,
        worked_us=head.worked_us + limits.worked_since(head, draft, at_us=at_us, now=now),
        size_bytes=head.size_bytes + len(draft.body),
        said=head.said if draft.said is None else draft.said,
        updated_us=at_us,
        # Every commit renews, so a busy session needs no heartbeat of its own.
        lease=None if draft.release else leases.renewed(owned.lease, now),
    )
    # Apart from the call above: unpacking a mapping into it costs more than the whole rest of it.
    if (
        draft.status is not None
        or draft.native is not None
        or draft.attempt is not None
        or draft.queue_position is not None
        or draft.kind == "rewind"
    ):
        rare = _status_after(head, draft, at_us) | _whereabouts_after(draft)
        after = msgspec.structs.replace(after, **rare) if rare else after
    return Committed(step=step, head=after)


def _whereabouts_after(draft: Draft) -> dict[str, Any]:
    """Changes of the native session, the runtime handle, the queue position and, by a rewind, of the agent's last line.
    After a rewind no native session matches the journal."""
    changed: dict[str, Any] = {}
    if draft.queue_position is not None:
        changed["queue_position"] = draft.queue_position if draft.queue_position.queue else None
    if draft.native is not None or draft.kind == "rewind":
        changed["native"] = draft.native or None
    if draft.kind == "rewind":  # which may have moved the agent's newest line out of view
        changed["said"] = draft.view.said if draft.view is not None else None
    if draft.attempt is not None and draft.attempt.handle is not None:
        changed["handle"] = draft.attempt.handle or None
    return changed


def plan_renewal(head: Head, *, owner: str, epoch: int, now: Instant) -> Head:
    """A heartbeat: the same head with a later deadline, or LeaseLost."""
    leases.check_writer(head, _heartbeat(owner, epoch))
    return msgspec.structs.replace(head, lease=leases.renewed(head.lease, now))


def plan_release(head: Head, *, owner: str, epoch: int) -> Head:
    """Release the lease without a step. The epoch stays, so that a late write of the former owner is refused."""
    leases.check_writer(head, _heartbeat(owner, epoch))
    return msgspec.structs.replace(head, lease=None)


def _heartbeat(owner: str, epoch: int) -> Draft:
    return Draft(kind="mark", body=b"", key=b"", owner=owner, epoch=epoch)


def _open_after(head: Head, draft: Draft, seq: int, at_us: int) -> tuple[OpenEffect, ...]:
    opened = tuple(
        OpenEffect(
            id=intent.id,
            name=intent.name,
            effect=intent.effect,
            asked_seq=intent.asked_seq,
            intent_seq=seq,
            started_us=at_us,
        )
        for intent in draft.opened
    )
    closed = set(draft.closed)
    return tuple(effect for effect in head.open if (effect.asked_seq, effect.id) not in closed) + opened


def _status_after(head: Head, draft: Draft, at_us: int) -> dict[str, Any]:
    """The fields of a head that describe its status, if it changes.

    A rewind, or its undo, restores the status of the target; the table of transitions does not apply to it.
    """
    change = draft.status
    if change is None:
        return {}
    # A claim that begins an attempt also ends the one of the dead owner, in the same step. The transition is checked as
    # if `terminated` had been recorded in between.
    ends = draft.attempt is not None and draft.claim is not None and head.status in LIVE
    before = "terminated" if ends else head.status
    if draft.kind != "rewind" and change.status != head.status and not allowed(before, change.status):
        raise Conflict(f"{head.session}: cannot go from {head.status} to {change.status}")
    return {
        "status": change.status,
        "reason": change.reason,
        "failure": change.failure,
        "question": change.question,
        "asking": change.asking,
        "wake_us": change.wake_us,
        "ended_us": at_us if change.status in ENDED else None,
    }
