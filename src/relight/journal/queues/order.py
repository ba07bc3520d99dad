"""Queue order: which sessions have a queue row, and which of them is next.

A row exists exactly while a session with a queue position is queued, or waits for an answer with a deadline. The
greater priority goes first, then the longer wait. A session with a wakeup time becomes eligible when the time has come;
of those, stores return the earliest first, and workers then order them by priority like the others.
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
    """One session in a queue."""

    line: QueueKey
    priority: int
    since_us: int
    session: str
    wake_us: int | None

    @property
    def rank(self) -> tuple[int, int, str]:
        """Sort key; the smaller goes first."""
        return -self.priority, self.since_us, self.session


def is_queued(head: Head) -> bool:
    """Whether a worker may take it, now or at its wakeup time. A question with a deadline is woken when it has
    passed."""
    return head.status == "queued" or (head.status == "waiting" and head.wake_us is not None)


def queue_row_of(head: Head) -> QueueRow | None:
    """The queue row of a session in this state, if it has one."""
    queue_position = head.queue_position
    if queue_position is None or not is_queued(head):
        return None
    return QueueRow(queue_position.line, queue_position.priority, queue_position.since_us, head.session, head.wake_us)


def format_queue_key(line: QueueKey) -> str:
    """A queue key as text, for stores: `queue`, or `queue gpu,eu`. Names contain neither space nor comma."""
    return " ".join((line.queue, ",".join(line.wants))) if line.wants else line.queue


def parse_queue_key(key: str) -> QueueKey:
    """The inverse of `format_queue_key`."""
    queue, _, wants = key.partition(" ")
    return QueueKey(queue, tuple(wants.split(","))) if wants else QueueKey(queue)


def matching_queues(lines: Iterable[QueueKey], queues: Sequence[str], labels: Sequence[str]) -> list[QueueKey]:
    """The queue keys that a worker of these queues and labels may serve."""
    have = set(labels)
    return [line for line in lines if line.queue in queues and have.issuperset(line.wants)]


def first_rows(rows: Iterable[QueueRow], limit: int) -> list[QueueRow]:
    """The first rows of several queues merged."""
    return sorted(rows, key=lambda row: row.rank)[:limit]


def checked_position(queue: str, *, priority: int, wants: Iterable[str], since_us: int) -> QueuePosition:
    """A queue position from user input, or UsageError."""
    if type(priority) is not int or abs(priority) > MAX_PRIORITY:
        raise UsageError(f"priority must be a whole number up to {MAX_PRIORITY}, not {priority!r}")
    labels = tuple(sorted({checked_label(one) for one in wants}))
    if len(labels) > MAX_WANTS:
        raise UsageError(f"a session may want {MAX_WANTS} labels of its worker, not {len(labels)}")
    return QueuePosition(queue=checked_queue(queue), priority=priority, wants=labels, since_us=since_us)


def checked_queue(name: str) -> str:
    """A valid queue name, or UsageError."""
    return check_name(name, "queue name")


def checked_label(name: str) -> str:
    """A valid worker label, or UsageError."""
    return check_name(name, "worker's label")
