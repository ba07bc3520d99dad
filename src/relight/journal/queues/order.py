"""Who waits in which line, and who goes first. Pure: stores keep the rows, workers ask for the first of them.

A row exists exactly while a session with a place is queued, or waits for an answer until a time that it said. The
greater priority goes first, then whoever stands there longer. A session with a time to wake joins when its time has
come; of those, the ones whose time came first are looked at first, and then take their place by priority like the
others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from relight.errors import UsageError
from relight.values.queues import QueueKey, QueuePosition
from relight.values.ref import check_name
from relight.values.session import Head

MAX_PRIORITY: Final = 1_000_000
MAX_WANTS: Final = 16


class QueueRow(msgspec.Struct, frozen=True, gc=False):
    """One row of a line."""

    line: QueueKey
    priority: int
    since_us: int
    session: str
    wake_us: int | None

    @property
    def rank(self) -> tuple[int, int, str]:
        """Smaller goes first."""
        return -self.priority, self.since_us, self.session


def is_in_line(head: Head) -> bool:
    """May a worker take it up, now or when its time has come? A question that has a time is woken when it is over."""
    return head.status == "queued" or (head.status == "waiting" and head.wake_us is not None)


def waiting_of(head: Head) -> QueueRow | None:
    """The row that a session has while it stands like this."""
    place = head.place
    if place is None or not is_in_line(head):
        return None
    return QueueRow(place.line, place.priority, place.since_us, head.session, head.wake_us)


def line_key(line: QueueKey) -> str:
    """A line in one word, for stores: `queue`, or `queue gpu,eu`. No name has a space or a comma in it."""
    return " ".join((line.queue, ",".join(line.wants))) if line.wants else line.queue


def line_of(key: str) -> QueueKey:
    """What was given to `line_key`."""
    queue, _, wants = key.partition(" ")
    return QueueKey(queue, tuple(wants.split(","))) if wants else QueueKey(queue)


def fitting(lines: Iterable[QueueKey], queues: Sequence[str], labels: Sequence[str]) -> list[QueueKey]:
    """The lines that a worker of these queues and labels may serve."""
    have = set(labels)
    return [line for line in lines if line.queue in queues and have.issuperset(line.wants)]


def first_of(rows: Iterable[QueueRow], limit: int) -> list[QueueRow]:
    """The first of several lines together."""
    return sorted(rows, key=lambda row: row.rank)[:limit]


def checked_place(queue: str, *, priority: int, wants: Iterable[str], since_us: int) -> QueuePosition:
    """A place as a user asked for it, or a refusal that says what is wrong with it."""
    if type(priority) is not int or abs(priority) > MAX_PRIORITY:
        raise UsageError(f"a priority is a whole number up to {MAX_PRIORITY}, not {priority!a}")
    labels = tuple(sorted({checked_label(one) for one in wants}))
    if len(labels) > MAX_WANTS:
        raise UsageError(f"a session may want {MAX_WANTS} labels of its worker, not {len(labels)}")
    return QueuePosition(queue=checked_queue(queue), priority=priority, wants=labels, since_us=since_us)


def checked_queue(name: str) -> str:
    """A queue's name: what can be typed."""
    return check_name(name, "queue name")


def checked_label(name: str) -> str:
    """A worker's label."""
    return check_name(name, "worker's label")
