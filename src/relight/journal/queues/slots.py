"""Limits of a queue, enforced with the claim: how many sessions may run at once, and how many may start in a period.

Stores call `plan_slot` inside the transaction that commits the claim, on the queue's records and the heads of the slot
holders, all read there. A slot is not released explicitly: it counts exactly while its session is live and leased. An
owner whose lease expired may still be working, so it counts until the sweep has requeued its session.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from relight.errors import QueueFull, UsageError
from relight.journal.queues.small_records import pack_record, unpack_record
from relight.values.lease import Instant
from relight.values.queues import MAX_STARTS, Queue, Rate, Slots
from relight.values.session import Head
from relight.values.status import LIVE
from relight.values.step import Draft

RECHECK_SECONDS: Final = 1.0
"""when to check again whether a running session has ended"""
MAX_CONCURRENCY: Final = 10_000
_UNITS: Final = {"s": 1.0, "sec": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "hour": 3600.0, "day": 86_400.0}


def slot_wanted(head: Head, draft: Draft) -> str | None:
    """The queue whose slot this step takes, if any."""
    wanted = draft.claim is not None and draft.claim.slot and head.queue_position is not None
    return head.queue_position.queue if wanted and head.queue_position is not None else None


def plan_slot(
    queue_record: bytes | None,
    slots_record: Callable[[], bytes | None],
    head_of: Callable[[str], Head | None],
    *,
    session: str,
    now: Instant,
) -> bytes | None:
    """The queue's slot record after one more start; None if nothing limits it. QueueFull if there is no slot."""
    queue = unpack_record(queue_record, Queue) if queue_record is not None else None
    if queue is None or (queue.concurrency is None and queue.rate is None):
        return None
    record = slots_record()
    slots = (unpack_record(record, Slots) if record is not None else None) or Slots()
    heads = {one: head_of(one) for one in slots.holders}
    return pack_record(take_slot(queue, slots, session, heads, now))


def take_slot(queue: Queue, slots: Slots, session: str, heads: Mapping[str, Head | None], now: Instant) -> Slots:
    """One more working session, or QueueFull. `heads`: of all holders, None for a deleted one."""
    at_work = tuple(one for one in slots.holders if one != session and _is_at_work(heads.get(one)))
    if queue.concurrency is not None and len(at_work) >= queue.concurrency:
        why = f"{len(at_work)} of {queue.concurrency} run"
        raise QueueFull(queue.name, why, again_seconds=RECHECK_SECONDS)
    started = _recent(queue, slots, now)
    if queue.rate is not None and len(started) >= queue.rate.starts:
        seconds = queue.rate.seconds - (now.us - started[0].us) / 1e6
        why = f"{queue.rate.starts} were started in the last {queue.rate.seconds:g} s"
        raise QueueFull(queue.name, why, again_seconds=max(seconds, 0.05))
    return Slots(
        # Sessions that no longer work are dropped here. Nothing else removes them, so a crash cannot leak a slot.
        holders=(*at_work, session) if queue.concurrency is not None else (),
        started=(*started, now) if queue.rate is not None else (),
    )


def _is_at_work(head: Head | None) -> bool:
    return head is not None and head.status in LIVE and head.lease is not None


def _recent(queue: Queue, slots: Slots, now: Instant) -> tuple[Instant, ...]:
    """Starts that still count. One of another timeline was before a reboot or on another server, and does not."""
    if queue.rate is None:
        return ()
    since_us = now.us - round(queue.rate.seconds * 1e6)
    return tuple(one for one in slots.started if one.timeline == now.timeline and since_us < one.us <= now.us)


def checked_concurrency(value: int | None) -> int | None:
    """How many at once; None and 0 mean unlimited."""
    if value is not None and (type(value) is not int or not 0 <= value <= MAX_CONCURRENCY):
        raise UsageError(f"concurrency must be a number up to {MAX_CONCURRENCY}, not {value!r}")
    return value or None


def parse_rate(text: str) -> Rate | None:
    """Parse `10/min`, `1/30s` or `none`."""
    if text == "none":
        return None
    starts, _, per = text.partition("/")
    digits = per.rstrip("abcdefghijklmnopqrstuvwxyz")
    unit = per[len(digits) :]
    try:
        rate = Rate(starts=int(starts), seconds=float(digits or 1) * _UNITS[unit])
    except (ValueError, KeyError):
        rate = Rate(starts=0, seconds=0)
    if not 1 <= rate.starts <= MAX_STARTS or not 0 < rate.seconds <= 7 * 86_400:
        hints = ["for example 10/min, 2/s, 1/30s, none", f"at most {MAX_STARTS} starts in at most 7 days"]
        raise UsageError(f"not a rate: {text!r}", hints=hints)
    return rate


def shown_rate(rate: Rate | None) -> str:
    """The inverse of `parse_rate`."""
    if rate is None:
        return "none"
    for unit, seconds in (("day", 86_400.0), ("h", 3600.0), ("min", 60.0), ("s", 1.0)):
        if rate.seconds % seconds == 0:
            number = rate.seconds / seconds
            return f"{rate.starts}/{unit}" if number == 1 else f"{rate.starts}/{number:g}{unit}"
    return f"{rate.starts}/{rate.seconds:g}s"
