"""Steps of several sessions travel together: while one exchange with the server is on its way, whoever comes waits for
the next, and all that have come by then share it, its transaction and its sync of the disk.

Nobody waits for company: the first to come goes at once and alone. Left out is what may wait for others on the server
(a session that somebody else has locked, a change of status), and what is large: a session never waits for another one,
but for the moment in which it is written.

What goes wrong for several and is certain, since their transaction was undone, is nobody's answer: each is tried alone.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from struct import pack
from typing import Any, Final

import psycopg
from psycopg.adapt import Dumper
from psycopg.pq import Format

from relight.errors import RelightError
from relight.stores.postgres.connections import Connection, Connections, forget_in_child, is_lost
from relight.stores.postgres.rows import StepRow
from relight.stores.postgres.statements import SQL

LANES: Final = 2
"""exchanges on their way at once: while one is at the server, the steps of the next are planned"""
MAX: Final = 64
"""steps in one exchange"""
LARGE_BYTES: Final = 64 * 1024
"""a body that goes alone"""
LOOK_SECONDS: Final = 1.0
"""a call that never came: its caller was interrupted twice"""


class PendingCommit:
    """One step on its way."""

    __slots__ = ("call", "error", "is_back", "is_lost", "is_over", "row", "session", "told")

    def __init__(self, session: str, row: StepRow) -> None:
        self.session = session
        self.row = row
        self.told: int | None = None
        """the server's time, where it was written"""
        self.error: RelightError | None = None
        self.is_back = False
        """is it known what became of it?"""
        self.is_lost = False
        """was who had taken it along interrupted?"""
        self.is_over = False
        """has its own thread gone on?"""
        self.call: SimpleQueue[None] = SimpleQueue()

    @property
    def goes_alone(self) -> bool:
        """May it wait for others on the server, or is it so large that they would wait for it?"""
        return self.row.label is not None or self.row.status is not None or len(self.row.body) > LARGE_BYTES


class CommitBatcher:
    """The way of steps to the server. Thread-safe."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._lanes = [BatchLane() for _ in range(LANES)]
        forget_in_child(self)

    def send(self, one: PendingCommit) -> None:
        """Until it is back and tells what became of it; one that is not back may be written or not."""
        if one.goes_alone:
            exchange(self._connections, [one], SQL["commit_step"], one.row)
        else:
            self._lanes[one.row.sid % LANES].send(self._connections, one)

    def forget(self) -> None:
        """In a forked child: those who wait are threads of the parent."""
        self._lanes = [BatchLane() for _ in range(LANES)]


class BatchLane:
    """One exchange after the other. Whoever leads takes along all who wait, and the next of them leads the next."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[PendingCommit] = deque()
        self._leader: PendingCommit | None = None

    def send(self, connections: Connections, one: PendingCommit) -> None:
        """Until it is back, or lost. Whoever is interrupted leaves nobody waiting for him."""
        several: list[PendingCommit] = []
        try:
            self._waiting.append(one)
            while not (one.is_back or one.is_lost):
                if self._leads(one):
                    self._take(several)
                    exchange(connections, several, SQL["commit_steps"], packed([each.row for each in several]))
                    _call(several)
                else:
                    with suppress(Empty):
                        one.call.get(timeout=LOOK_SECONDS)
        finally:
            one.is_over = True
            _call(several)
            self._pass_on(one)

    def _leads(self, one: PendingCommit) -> bool:
        with self._lock:
            if self._leader is None or self._leader.is_over:
                self._leader = one
            return self._leader is one

    def _take(self, several: list[PendingCommit]) -> None:
        several.clear()
        with self._lock:
            while self._waiting and len(several) < MAX:
                several.append(self._waiting[0])
                self._waiting.popleft()

    def _pass_on(self, one: PendingCommit) -> None:
        with self._lock:
            if not one.is_back and one in self._waiting:  # it was interrupted: nobody shall take it along
                self._waiting.remove(one)
            if self._waiting:
                self._waiting[0].call.put(None)


def _call(several: Sequence[PendingCommit]) -> None:
    """They are back, or whoever took them along never will be."""
    for one in several:
        one.is_lost = not one.is_back
        one.call.put(None)


def exchange(
    connections: Connections, several: Sequence[PendingCommit], statement: bytes, values: Sequence[Any]
) -> None:
    """To the server and back. RelightError: nobody has left."""
    try:
        with connections.borrowed() as connection:
            told = _told(connections, connection, several, statement, values)
    except RelightError:
        for one in several:
            one.is_back = True
        raise
    for one, when in zip(several, told, strict=True):
        one.told, one.is_back = when, True


def _told(
    connections: Connections,
    connection: Connection,
    several: Sequence[PendingCommit],
    statement: bytes,
    values: Sequence[Any],
) -> Sequence[int | None]:
    """When each was written."""
    try:
        row = connection.execute(statement, values, binary=True).fetchone()
        assert row is not None
        return row[0] if isinstance(row[0], list) else row
    except psycopg.Error as error:
        for one in several if len(several) == 1 or is_lost(connection) else ():
            one.error = connections.doubted(connection, error, one.session)
        return [None] * len(several)
    except BaseException:  # Ctrl-C, on either side of the commit
        connection.close()
        raise


# -- arrays, as the server reads them -------------------------------------------------------------------------------


class Numbers(bytes):
    """bigint[]"""


class Parts(bytes):
    """bytea[]"""


class _AsNumbers(Dumper):
    format = Format.BINARY
    oid = 1016

    def dump(self, obj: bytes) -> bytes:
        return obj


class _AsParts(_AsNumbers):
    oid = 1001


psycopg.adapters.register_dumper(Numbers, _AsNumbers)
psycopg.adapters.register_dumper(Parts, _AsParts)


def packed(rows: Sequence[StepRow]) -> tuple[Numbers, Parts]:
    """Bindings of `commit_steps`: eight numbers and seven parts of each step."""
    numbers: list[int] = []
    parts = [b""]
    for row in rows:
        for number in (row.sid, row.seq, row.at_us, row.base, row.since, row.message_count, row.turns, row.attempt):
            numbers += (8, number)
        for part in (row.planned_on, row.moved_to, row.kind.encode(), row.key, row.digest, row.open, row.body):
            parts += (pack(">i", -1),) if part is None else (pack(">i", len(part)), part)
    parts[0] = pack(">5i", 1, 1, 17, 7 * len(rows), 1)  # one dimension, with NULLs, of bytea, so many, counted from 1
    return Numbers(pack(">5i" + "iq" * (8 * len(rows)), 1, 0, 20, 8 * len(rows), 1, *numbers)), Parts(b"".join(parts))
