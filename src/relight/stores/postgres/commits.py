"""Steps are committed: in one exchange with the server where nobody else has written, in two where somebody may have.

What a session's head was when this store last wrote or read it is remembered together with its sealed bytes. A step is
planned on that, and sent with both, together with steps of other sessions that come at the same time: the server writes
it only if the head is still those bytes, in one transaction: the plan was made on the truth, or it comes to nothing.
Where it comes to nothing, and for every refusal, claim and snapshot, the head is locked and read first and the plan is
made again: nothing is refused by memory.

A connection lost in the middle leaves the outcome open, and the server may still be about to write. `find_commit` then
takes the lock on the head, which waits for that, looks for the writer's key, and where it is not there moves the head
by a microsecond of its lease: from then on the lost step cannot be written any more, and the answer stays true.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec
import psycopg

from relight.errors import Corrupt, NotFound, RelightError, StoreUnavailable
from relight.journal.chain import seal
from relight.journal.commit import plan_commit, plan_release, plan_renewal
from relight.journal.queues.order import queue_row_of
from relight.ports import faults
from relight.ports.clock import Clock
from relight.stores.postgres import queues, reading, snapshots
from relight.stores.postgres.batching import CommitBatcher, PendingCommit
from relight.stores.postgres.connections import Connection, Connections, Cursor, forget_in_child, undo
from relight.stores.postgres.driver import DRIVER_ERRORS, explained
from relight.stores.postgres.rows import StepRow, step_row, to_bytes, unsealed_head
from relight.stores.postgres.server_time import ServerTime
from relight.stores.postgres.statements import BEGIN, COMMIT, SQL
from relight.values.lease import Instant
from relight.values.session import Head
from relight.values.step import Committed, Draft

MAX_REMEMBERED: Final = 4096
"""sessions whose newest head is kept at hand"""
LINES: Final = 1024
"""threads of this process that write to one session stand in one of so many lines: on the server they would undo one
another's plans"""
TRIES: Final = 4
"""where the server breaks a circle of waiters by undoing one of them"""
_UNDONE: Final = (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure)


class Known(NamedTuple):
    """A head, and the bytes that stand for it on the server."""

    sid: int
    head: Head
    record: bytes


class Journal:
    """Writes heads and steps. Thread-safe."""

    def __init__(self, connections: Connections, time: ServerTime, clock: Clock) -> None:
        self._connections = connections
        self._time = time
        self._clock = clock
        self._together = CommitBatcher(connections)
        self._lines = [threading.Lock() for _ in range(LINES)]
        self._lock = threading.Lock()
        self._known: OrderedDict[str, Known] = OrderedDict()
        self._doubts: set[str] = set()
        """sessions of which a commit was lost on its way"""
        self.exchanges = [0, 0]
        """steps committed with one exchange, and with two"""
        forget_in_child(self)

    # -- steps ----------------------------------------------------------------------------------------------------

    def commit(self, session: str, draft: Draft) -> Committed:
        """One durable step, or an error and nothing."""
        faults.point("commit.enter")
        with self._line(session):
            committed = self._at_once(session, draft) or self._locked(session, draft)
        faults.point("commit.committed")
        return committed

    def _at_once(self, session: str, draft: Draft) -> Committed | None:
        """Planned on what is remembered; None where that may not be the truth."""
        known, now = self._known.get(session), self._time.counted()
        if known is None or now is None or draft.claim is not None or draft.snapshots or session in self._doubts:
            return None
        try:
            committed = plan_commit(known.head, draft, at_us=self._clock.now_us(), now=now)
        except RelightError:
            return None  # it is refused on the truth
        if queue_row_of(known.head) != queue_row_of(committed.head):
            return None  # its line is written too
        faults.point("commit.begun")
        record = seal(committed.head)
        one = PendingCommit(session, _row(known, record, committed))
        faults.point("commit.written")
        self._send(one)
        if not one.is_back:  # a thread that was interrupted had taken it along
            return self._settled(session, draft.key, known.head.seq)
        if one.told is None:
            self.forget_session(session)
            return None
        self._time.told(one.told)
        self._remember(session, Known(known.sid, committed.head, record))
        self.exchanges[0] += 1
        return committed

    def _send(self, one: PendingCommit) -> None:
        """Until it was written or not, or lost; an error where it cannot be, or where nobody can say."""
        try:
            self._together.send(one)
        finally:
            if not one.is_back or isinstance(one.error, StoreUnavailable):
                self._lost(one.session)
        if one.error is not None:
            self.forget_session(one.session)
            raise one.error

    def _locked(self, session: str, draft: Draft) -> Committed:
        """Planned on the head as it is, which nobody moves meanwhile."""
        for tries in range(1, TRIES + 1):
            with self._connections.borrowed() as connection:
                try:
                    return self._locked_once(connection, session, draft)
                except _UNDONE as error:
                    undo(connection)
                    if tries == TRIES:
                        raise explained(error, self._connections.where, session=session) from None
                except DRIVER_ERRORS as error:
                    undo(connection)
                    self.forget_session(session)
                    raise explained(error, self._connections.where, session=session) from None
                except BaseException:
                    undo(connection)
                    raise
        raise AssertionError("unreachable")

    def _locked_once(self, connection: Connection, session: str, draft: Draft) -> Committed:
        known, now = self._lock_head(connection, session)
        faults.point("commit.begun")
        committed = plan_commit(known.head, draft, at_us=self._clock.now_us(), now=now)
        cursor = connection.cursor(binary=True)
        snapshots.keep_segments(cursor, session, draft.snapshots)
        slots = queues.planned_slots(cursor, known.head, draft, now)
        record = seal(committed.head)
        faults.point("commit.written")
        try:
            with connection.pipeline():
                cursor.execute(SQL["commit_step"], _row(known, record, committed))
                for row in snapshots.rows_of(known.sid, committed.step.seq, draft.snapshots):
                    connection.execute(SQL["insert_snapshot"], row)
                queues.move(connection.cursor(), known.sid, known.head, committed.head)
                if slots is not None:
                    connection.execute(SQL["put_kept"], slots)
                connection.execute(COMMIT)
        except _UNDONE:
            raise
        except psycopg.Error as error:
            raise self._failed(connection, error, session) from None
        except BaseException:  # Ctrl-C, on either side of the commit
            connection.close()
            self._lost(session)
            raise
        self._remember(session, Known(known.sid, committed.head, record))
        with self._lock:
            self._doubts.discard(session)  # the head has moved: what was lost on its way fits it no more
        self.exchanges[1] += 1
        return committed

    def _lock_head(self, connection: Connection, session: str) -> tuple[Known, Instant]:
        """Begin a transaction that has the head to itself. One exchange; NotFound, or Corrupt where it is damaged."""
        cursor = connection.cursor(binary=True)
        with connection.pipeline():
            connection.execute(BEGIN)
            connection.execute(SQL["settle_transaction"])
            cursor.execute(SQL["lock_head"], (to_bytes(session),))
        return self._read_locked(cursor, session)

    def _read_locked(self, cursor: Cursor, session: str) -> tuple[Known, Instant]:
        row = cursor.fetchone()
        if row is None:
            self.forget_session(session)
            if cursor.execute(SQL["find_sid"], (to_bytes(session),)).fetchone() is None:
                raise NotFound(session)
            raise Corrupt("its head is missing", session=session)
        sid, record, server_us = row
        head = unsealed_head(record)
        if head is None or head.session != session:
            raise Corrupt("its head fails its seal", session=session)
        return Known(sid, head, record), self._time.told(server_us)

    def _failed(self, connection: Connection, error: psycopg.Error, session: str) -> RelightError:
        """Forget what was remembered; where the connection is gone the step may be written, or still be on its way."""
        self.forget_session(session)
        ours = self._connections.doubted(connection, error, session)
        if isinstance(ours, StoreUnavailable):
            connection.close()
            self._lost(session)
        return ours

    def _lost(self, session: str) -> None:
        """A commit is somewhere between here and the disk."""
        with self._lock:
            self._known.pop(session, None)
            self._doubts.add(session)

    def find_commit(self, session: str, key: bytes, after: int) -> Committed | None:
        """The step committed under this key; where a commit was lost on its way, an answer that stays true."""
        if session not in self._doubts:
            with self._connections.reading(session) as cursor:
                return reading.find_commit(cursor, session, key, after)
        with self._line(session):
            return self._settled(session, key, after)

    def _settled(self, session: str, key: bytes, after: int) -> Committed | None:
        with self._connections.transaction(session) as cursor:
            cursor.execute(SQL["lock_head"], (to_bytes(session),))
            known, _ = self._read_locked(cursor, session)
            committed = reading.find_commit(cursor, session, key, after)
            if committed is None:
                cursor.execute(SQL["put_head"], (known.sid, seal(_moved(known.head))))
            self.forget_session(session)
        with self._lock:
            self._doubts.discard(session)
        return committed

    # -- heads ----------------------------------------------------------------------------------------------------

    def renew(self, session: str, owner: str, epoch: int) -> None:
        """Heartbeat: another deadline, or LeaseLost."""
        self._move(session, lambda head, now: plan_renewal(head, owner=owner, epoch=epoch, now=now))

    def release(self, session: str, owner: str, epoch: int) -> None:
        """No lease any more, or LeaseLost."""
        self._move(session, lambda head, _: plan_release(head, owner=owner, epoch=epoch))

    def _move(self, session: str, plan: Callable[[Head, Instant], Head]) -> None:
        """Another head without a step."""
        with self._line(session):
            with self._connections.transaction(session) as cursor:
                cursor.execute(SQL["lock_head"], (to_bytes(session),))
                known, now = self._read_locked(cursor, session)
                head = plan(known.head, now)
                record = seal(head)
                self.forget_session(session)
                cursor.execute(SQL["put_head"], (known.sid, record))
            self._remember(session, Known(known.sid, head, record))

    # -- what is remembered ---------------------------------------------------------------------------------------

    def forget_session(self, session: str) -> None:
        """Read its head again next time."""
        with self._lock:
            self._known.pop(session, None)

    def forget(self) -> None:
        """In a forked child: nobody stands in line any more, and the locks of the parent's threads are not ours."""
        self._lines = [threading.Lock() for _ in range(LINES)]
        self._lock = threading.Lock()

    def _remember(self, session: str, known: Known) -> None:
        with self._lock:
            self._known[session] = known
            self._known.move_to_end(session)
            if len(self._known) > MAX_REMEMBERED:
                self._known.popitem(last=False)

    def _line(self, session: str) -> threading.Lock:
        return self._lines[hash(session) % LINES]


def _row(known: Known, record: bytes, committed: Committed) -> StepRow:
    status = committed.head.status
    changed = status if status != known.head.status else None
    return step_row(known.sid, known.record, record, committed.step, changed)


def _moved(head: Head) -> Head:
    """The same head, and other bytes: a step that was planned on the former ones finds them no more."""
    if head.lease is None:
        return head
    deadline = msgspec.structs.replace(head.lease.deadline, us=head.lease.deadline.us + 1)
    return msgspec.structs.replace(head, lease=msgspec.structs.replace(head.lease, deadline=deadline))
