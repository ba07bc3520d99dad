"""Committing steps: in one round trip if no other process has written, in two if one may have.

Optimistic path: the head as this store last wrote or read it is cached with its sealed bytes. A step is planned on the
cached head and sent with those bytes, in a batch with steps of other sessions; the server writes it only if the head
still has exactly these bytes (compare-and-set). If not, and for every claim, snapshot and refusal, the locked path is
taken: lock the head's row, read it, plan again. Nothing is ever refused because of a cached head.
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
from relight.stores.postgres.connections import Connection, Connections, Cursor, reset_in_child, rollback
from relight.stores.postgres.driver import DRIVER_ERRORS, store_error
from relight.stores.postgres.rows import StepRow, step_row, to_bytes
from relight.stores.postgres.server_time import ServerTime
from relight.stores.postgres.statements import BEGIN, COMMIT, SQL
from relight.stores.session_locks import SessionLocks
from relight.stores.stored_rows import unsealed_head
from relight.values.lease import Instant
from relight.values.session import Head
from relight.values.step import Committed, Draft

MAX_CACHED_SESSIONS: Final = 4096
"""sessions whose newest head is cached"""
MAX_ATTEMPTS: Final = 4
"""the server resolves a deadlock by rolling one transaction back"""
_RETRYABLE: Final = (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure)


class CachedHead(NamedTuple):
    """A head, and its sealed bytes on the server."""

    sid: int
    head: Head
    record: bytes


class Journal:
    """Writes heads and steps. Thread-safe."""

    def __init__(self, connections: Connections, time: ServerTime, clock: Clock) -> None:
        self._connections = connections
        self._time = time
        self._clock = clock
        self._batcher = CommitBatcher(connections)
        self._session_locks = SessionLocks()
        """threads of this process that write to one session would invalidate each other's plans on the server"""
        self._lock = threading.Lock()
        self._cached: OrderedDict[str, CachedHead] = OrderedDict()
        self._in_doubt: set[str] = set()
        """sessions with a commit whose outcome is unknown: it may still be on its way to the disk"""
        self.round_trips = [0, 0]
        """steps committed with one round trip, and with two"""
        reset_in_child(self)

    # -- steps ----------------------------------------------------------------------------------------------------

    def commit(self, session: str, draft: Draft) -> Committed:
        """Commit one step durably, or raise and write nothing. StoreUnavailable: the outcome may be unknown."""
        faults.point("commit.enter")
        with self._session_locks.of(session):
            committed = self._commit_optimistic(session, draft) or self._commit_locked(session, draft)
        faults.point("commit.committed")
        return committed

    def _commit_optimistic(self, session: str, draft: Draft) -> Committed | None:
        """Plan on the cached head and compare-and-set it; None if that is not possible or the head has moved."""
        cached, now = self._cached.get(session), self._time.estimate()
        if cached is None or now is None or draft.claim is not None or draft.snapshots or session in self._in_doubt:
            return None
        try:
            committed = plan_commit(cached.head, draft, at_us=self._clock.now_us(), now=now)
        except RelightError:
            return None  # the cached head may be outdated: only the locked path may refuse
        if queue_row_of(cached.head) != queue_row_of(committed.head):
            return None  # its queue row changes too, which the batched statement does not write
        faults.point("commit.begun")
        record = seal(committed.head)
        pending = PendingCommit(session, _row(cached, record, committed))
        faults.point("commit.written")
        self._send(pending)
        if not pending.is_done:  # the leader of its batch was interrupted
            return self._resolve(session, draft.key, cached.head.seq)
        if pending.written_us is None:
            self.forget_session(session)
            return None
        self._time.observe(pending.written_us)
        self._cache(session, CachedHead(cached.sid, committed.head, record))
        self.round_trips[0] += 1
        return committed

    def _send(self, pending: PendingCommit) -> None:
        """Send and wait for the result; raises if it failed, or if the outcome is unknown."""
        try:
            self._batcher.send(pending)
        finally:
            if not pending.is_done or isinstance(pending.error, StoreUnavailable):
                self._mark_in_doubt(pending.session)
        if pending.error is not None:
            self.forget_session(pending.session)
            raise pending.error

    def _commit_locked(self, session: str, draft: Draft) -> Committed:
        """Plan against the row-locked head."""
        for attempt in range(1, MAX_ATTEMPTS + 1):
            with self._connections.borrowed() as connection:
                try:
                    return self._commit_locked_once(connection, session, draft)
                except _RETRYABLE as error:
                    rollback(connection)
                    if attempt == MAX_ATTEMPTS:
                        raise store_error(error, self._connections.where, session=session) from None
                except DRIVER_ERRORS as error:
                    rollback(connection)
                    self.forget_session(session)
                    raise store_error(error, self._connections.where, session=session) from None
                except BaseException:
                    rollback(connection)
                    raise
        raise AssertionError("unreachable")

    def _commit_locked_once(self, connection: Connection, session: str, draft: Draft) -> Committed:
        cached, now = self._lock_head(connection, session)
        faults.point("commit.begun")
        committed = plan_commit(cached.head, draft, at_us=self._clock.now_us(), now=now)
        cursor = connection.cursor(binary=True)
        snapshots.lock_segments(cursor, session, draft.snapshots)
        slots = queues.planned_slots(cursor, cached.head, draft, now)
        record = seal(committed.head)
        faults.point("commit.written")
        try:
            with connection.pipeline():
                cursor.execute(SQL["commit_step"], _row(cached, record, committed))
                for row in snapshots.rows_of(cached.sid, committed.step.seq, draft.snapshots):
                    connection.execute(SQL["insert_snapshot"], row)
                queues.move(connection.cursor(), cached.sid, cached.head, committed.head)
                if slots is not None:
                    connection.execute(SQL["put_record"], slots)
                connection.execute(COMMIT)
        except _RETRYABLE:
            raise
        except psycopg.Error as error:
            raise self._commit_failed(connection, error, session) from None
        except BaseException:  # Ctrl-C, before or after the commit
            connection.close()
            self._mark_in_doubt(session)
            raise
        self._cache(session, CachedHead(cached.sid, committed.head, record))
        with self._lock:
            self._in_doubt.discard(session)  # the head has moved: a commit still on its way does not fit it any more
        self.round_trips[1] += 1
        return committed

    def _lock_head(self, connection: Connection, session: str) -> tuple[CachedHead, Instant]:
        """Begin a transaction and lock the head's row, in one round trip. NotFound, or Corrupt if it is damaged."""
        cursor = connection.cursor(binary=True)
        with connection.pipeline():
            connection.execute(BEGIN)
            connection.execute(SQL["settle_transaction"])
            cursor.execute(SQL["lock_head"], (to_bytes(session),))
        return self._read_locked(cursor, session)

    def _read_locked(self, cursor: Cursor, session: str) -> tuple[CachedHead, Instant]:
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
        return CachedHead(sid, head, record), self._time.observe(server_us)

    def _commit_failed(self, connection: Connection, error: psycopg.Error, session: str) -> RelightError:
        """The error for a failed commit; if the connection is gone the step may be written, or still be on its way."""
        self.forget_session(session)
        failure = self._connections.commit_error(connection, error, session)
        if isinstance(failure, StoreUnavailable):
            connection.close()
            self._mark_in_doubt(session)
        return failure

    def _mark_in_doubt(self, session: str) -> None:
        """Note that a commit of this session has an unknown outcome."""
        with self._lock:
            self._cached.pop(session, None)
            self._in_doubt.add(session)

    def find_commit(self, session: str, key: bytes, after: int) -> Committed | None:
        """The step committed under this key. The answer stays true even if a commit is still on its way to the
        server."""
        if session not in self._in_doubt:
            with self._connections.reading(session) as cursor:
                return reading.find_commit(cursor, session, key, after)
        with self._session_locks.of(session):
            return self._resolve(session, key, after)

    def _resolve(self, session: str, key: bytes, after: int) -> Committed | None:
        with self._connections.transaction(session) as cursor:
            cursor.execute(SQL["lock_head"], (to_bytes(session),))
            cached, _ = self._read_locked(cursor, session)
            committed = reading.find_commit(cursor, session, key, after)
            if committed is None:
                # The lost commit may still reach the server. It is a compare-and-set on the head's bytes, so changing
                # them makes it fail for good, and "not committed" stays true.
                cursor.execute(SQL["put_head"], (cached.sid, seal(_invalidated(cached.head))))
            self.forget_session(session)
        with self._lock:
            self._in_doubt.discard(session)
        return committed

    # -- heads ----------------------------------------------------------------------------------------------------

    def renew(self, session: str, owner: str, epoch: int) -> None:
        """Heartbeat: extend the lease, or LeaseLost."""
        self._update_head(session, lambda head, now: plan_renewal(head, owner=owner, epoch=epoch, now=now))

    def release(self, session: str, owner: str, epoch: int) -> None:
        """Release the lease, or LeaseLost."""
        self._update_head(session, lambda head, _: plan_release(head, owner=owner, epoch=epoch))

    def _update_head(self, session: str, plan: Callable[[Head, Instant], Head]) -> None:
        """Write a head without a step, under the row lock."""
        with self._session_locks.of(session):
            with self._connections.transaction(session) as cursor:
                cursor.execute(SQL["lock_head"], (to_bytes(session),))
                cached, now = self._read_locked(cursor, session)
                head = plan(cached.head, now)
                record = seal(head)
                self.forget_session(session)
                cursor.execute(SQL["put_head"], (cached.sid, record))
            self._cache(session, CachedHead(cached.sid, head, record))

    # -- what is remembered ---------------------------------------------------------------------------------------

    def forget_session(self, session: str) -> None:
        """Drop its cached head: the next commit reads it again."""
        with self._lock:
            self._cached.pop(session, None)

    def reset(self) -> None:
        """In a forked child: locks may be held by threads that exist only in the parent."""
        self._session_locks = SessionLocks()
        self._lock = threading.Lock()

    def _cache(self, session: str, cached: CachedHead) -> None:
        with self._lock:
            self._cached[session] = cached
            self._cached.move_to_end(session)
            if len(self._cached) > MAX_CACHED_SESSIONS:
                self._cached.popitem(last=False)


def _row(cached: CachedHead, record: bytes, committed: Committed) -> StepRow:
    status = committed.head.status
    changed = status if status != cached.head.status else None
    return step_row(cached.sid, cached.record, record, committed.step, changed)


def _invalidated(head: Head) -> Head:
    """The same head with other bytes: its lease deadline one microsecond later."""
    if head.lease is None:
        return head
    deadline = msgspec.structs.replace(head.lease.deadline, us=head.lease.deadline.us + 1)
    return msgspec.structs.replace(head, lease=msgspec.structs.replace(head.lease, deadline=deadline))
