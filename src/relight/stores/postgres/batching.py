"""Batched commits: while one round trip is under way, further commits queue, and share the next one.

A batch is one round trip, one transaction and one sync of the server's disk. No commit waits for others to join it: the
first goes at once. Left out is what may block on the server (a label, a change of status) and what is large, so a
session never waits for another one longer than it takes to write that one.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from queue import Empty, SimpleQueue
from struct import Struct
from typing import Any, Final

import psycopg
from psycopg.adapt import Dumper
from psycopg.pq import Format

from relight.errors import RelightError
from relight.stores.postgres.connections import Connection, Connections, is_broken, reset_in_child
from relight.stores.postgres.rows import StepRow
from relight.stores.postgres.statements import SQL

MAX_IN_FLIGHT: Final = 2
"""round trips at once: while one is at the server, the steps of the next are planned"""
MAX_BATCH: Final = 64
"""steps in one batch"""
LARGE_BYTES: Final = 64 * 1024
"""a larger body is sent alone"""
POLL_INTERVAL_SECONDS: Final = 1.0
"""how long a follower sleeps before it checks whether its leader was interrupted without waking it"""


class PendingCommit:
    """A step on its way to the server, and its result."""

    __slots__ = ("abandoned", "error", "is_done", "leader_lost", "row", "session", "wakes", "wakeup", "written_us")

    def __init__(self, session: str, row: StepRow) -> None:
        self.session = session
        self.row = row
        self.written_us: int | None = None
        """the server's time at which it was written; None if the head had moved or the transaction was rolled back"""
        self.error: RelightError | None = None
        self.is_done = False
        """the result is known"""
        self.leader_lost = False
        """the leader that sent it was interrupted, so the result is unknown"""
        self.abandoned = False
        """its thread does not wait any more"""
        self.wakeup: SimpleQueue[None] = SimpleQueue()
        self.wakes: PendingCommit | None = None
        """the next of its batch, whose thread is woken by its own"""

    @property
    def is_solo(self) -> bool:
        """True if it may block on the server, or is so large that others would wait for it."""
        return self.row.label is not None or self.row.status is not None or len(self.row.body) > LARGE_BYTES


class CommitBatcher:
    """Sends steps to the server in batches. Thread-safe."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._queues = [BatchQueue() for _ in range(MAX_IN_FLIGHT)]
        reset_in_child(self)

    def send(self, pending: PendingCommit) -> None:
        """Send, and wait for the result. Afterwards `is_done` is False if it is unknown whether the step was
        written."""
        if pending.is_solo:
            execute_batch(self._connections, [pending], SQL["commit_step"], pending.row)
        else:
            self._queues[pending.row.sid % MAX_IN_FLIGHT].send(self._connections, pending)

    def reset(self) -> None:
        """In a forked child: the waiters are threads of the parent."""
        self._queues = [BatchQueue() for _ in range(MAX_IN_FLIGHT)]


class BatchQueue:
    """One batch after the other. The leader sends all that wait; the first that comes after it leads the next batch."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[PendingCommit] = deque()
        self._leader: PendingCommit | None = None

    def send(self, connections: Connections, pending: PendingCommit) -> None:
        """Wait until the step was sent by this thread or by a leader. An interrupted thread leaves no follower
        waiting."""
        batch: list[PendingCommit] = []
        try:
            self._waiting.append(pending)
            while not (pending.is_done or pending.leader_lost):
                if self._try_lead(pending):
                    self._take_waiting(batch)
                    execute_batch(connections, batch, SQL["commit_steps"], pack_arrays([step.row for step in batch]))
                    _wake(batch)
                    batch.clear()
                else:
                    try:
                        pending.wakeup.get(timeout=POLL_INTERVAL_SECONDS)
                    except Empty:
                        continue
        finally:
            pending.abandoned = True
            _wake(batch)
            self._leave(pending)
            if pending.wakes is not None:
                pending.wakes.wakeup.put(None)

    def _try_lead(self, pending: PendingCommit) -> bool:
        with self._lock:
            if self._leader is None or self._leader.abandoned:
                self._leader = pending
            return self._leader is pending

    def _take_waiting(self, batch: list[PendingCommit]) -> None:
        batch.clear()
        with self._lock:
            while self._waiting and len(batch) < MAX_BATCH:
                batch.append(self._waiting[0])
                self._waiting.popleft()

    def _leave(self, pending: PendingCommit) -> None:
        with self._lock:
            if not pending.is_done and pending in self._waiting:  # interrupted: no leader may send it any more
                self._waiting.remove(pending)
            if self._waiting:
                self._waiting[0].wakeup.put(None)


def _wake(batch: Sequence[PendingCommit]) -> None:
    """Wake the threads of a batch, with the result or with `leader_lost`: the first of them, which wakes the next, and
    so on. Thirty that wake at once only compete for the interpreter lock. Where one was interrupted at that very
    moment, the others notice within `POLL_INTERVAL_SECONDS`."""
    if not batch:
        return
    waiting = [pending for pending in batch if not pending.abandoned]
    for pending in batch:
        pending.leader_lost = not pending.is_done
    for pending, next_one in pairwise(waiting):
        pending.wakes = next_one
    if waiting:
        waiting[0].wakeup.put(None)


def execute_batch(
    connections: Connections, batch: Sequence[PendingCommit], statement: bytes, values: Sequence[Any]
) -> None:
    """One round trip. RelightError means that nothing was sent."""
    try:
        with connections.borrowed() as connection:
            times = _execute(connections, connection, batch, statement, values)
    except RelightError:
        for pending in batch:
            pending.is_done = True
        raise
    for pending, at_us in zip(batch, times, strict=True):
        pending.written_us, pending.is_done = at_us, True


def _execute(
    connections: Connections,
    connection: Connection,
    batch: Sequence[PendingCommit],
    statement: bytes,
    values: Sequence[Any],
) -> Sequence[int | None]:
    """The time at which each step was written, None for those that were not."""
    try:
        row = connection.execute(statement, values, binary=True).fetchone()
        assert row is not None
        return row[0] if isinstance(row[0], list) else row
    except psycopg.Error as error:
        # An error of the server is certain: the transaction was rolled back. With several steps it is not known whose
        # error it is, so none gets it; each is tried again alone. Only a lost connection leaves all outcomes open.
        for pending in batch if len(batch) == 1 or is_broken(connection) else ():
            pending.error = connections.commit_error(connection, error, pending.session)
        return [None] * len(batch)
    except BaseException:  # Ctrl-C, before or after the commit: the connection's state is unknown
        connection.close()
        raise


# -- arrays, as the server reads them -------------------------------------------------------------------------------


class BigintArray(bytes):
    """An encoded bigint[]."""


class ByteaArray(bytes):
    """An encoded bytea[]."""


class _BigintArrayDumper(Dumper):
    format = Format.BINARY
    oid = 1016

    def dump(self, obj: bytes) -> bytes:
        return obj


class _ByteaArrayDumper(_BigintArrayDumper):
    oid = 1001


_HEADER: Final = Struct(">5i").pack
_NUMBERS: Final = Struct(">" + 8 * "iq").pack
_SIZE: Final = Struct(">i").pack
_NULL: Final = _SIZE(-1)
psycopg.adapters.register_dumper(BigintArray, _BigintArrayDumper)
psycopg.adapters.register_dumper(ByteaArray, _ByteaArrayDumper)


def pack_arrays(rows: Sequence[StepRow]) -> tuple[BigintArray, ByteaArray]:
    """Bindings of `commit_steps`: eight numbers and seven byte strings per step, in PostgreSQL's binary array
    format."""
    # One dimension, has no NULLs, of bigint, length, lower bound 1; and the same of bytea, with NULLs.
    numbers = [_HEADER(1, 0, 20, 8 * len(rows), 1)]
    parts = [_HEADER(1, 1, 17, 7 * len(rows), 1)]
    # Written out: a loop over the columns of a step took a tenth of all that a save does in this process.
    for row in rows:
        sid, before, after, seq, at_us, base, since, count, turns, attempt, kind, key, digest, opened, *_, body = row
        numbers.append(_NUMBERS(8, sid, 8, seq, 8, at_us, 8, base, 8, since, 8, count, 8, turns, 8, attempt))
        name = kind.encode()
        parts += (_SIZE(len(before)), before, _SIZE(len(after)), after, _SIZE(len(name)), name)
        parts += (_SIZE(len(key)), key, _SIZE(len(digest)), digest)
        parts += (_NULL,) if opened is None else (_SIZE(len(opened)), opened)
        parts += (_SIZE(len(body)), body)
    return BigintArray(b"".join(numbers)), ByteaArray(b"".join(parts))
