"""The writer: one connection, and group commit over it.

A thread that finds the writer idle commits its own step. Others queue meanwhile; the next leader takes up to
`MAX_GROUP` of them into one transaction, so that many sessions share one fsync. Order: BEGIN IMMEDIATE; for each step
read the head, plan, insert the step, move the head; COMMIT; raise the watermark; then every caller gets its answer.

- A refusal (LeaseLost, Conflict, ...) concerns one step: it is decided before anything of that step is written.
- A driver's error before COMMIT rolls the whole transaction back, and each step is tried again alone: damage under one
  session must not fail the others.
- After an error of COMMIT the outcome of every step in it is unknown; `find_commit` finds out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import apsw

from relight.errors import RelightError, StoreError, StoreFull, StoreUnavailable
from relight.ports import faults
from relight.ports.clock import Clock
from relight.stores.sqlite.commits import Journal
from relight.stores.sqlite.connection.database import Database
from relight.stores.sqlite.connection.driver import DRIVER_ERRORS, store_error
from relight.stores.sqlite.connection.watermark import CHANGES
from relight.stores.sqlite.group_commit import LeaderLost, Waiter, WriterQueue
from relight.stores.sqlite.statements import SQL
from relight.values.step import Committed, Draft

MAX_GROUP: Final = 256
"""steps in one transaction"""
_BEGIN: Final = SQL["begin"]
_COMMIT: Final = SQL["commit"]
_ROLLBACK: Final = SQL["rollback"]


class _PendingCommit(Waiter):
    """A step waiting to be committed, and its result."""

    __slots__ = ("committed", "done", "draft", "error", "session")

    def __init__(self, session: str, draft: Draft) -> None:
        super().__init__()
        self.session = session
        self.draft = draft
        self.committed: Committed | None = None
        self.error: Exception | None = None
        self.done = False
        """`committed` and `error` are final"""

    def refuse(self, error: Exception) -> None:
        self.committed, self.error, self.done = None, error, True

    def outcome(self, outcome_unknown: Callable[[], StoreError]) -> Committed | Exception:
        """The result; `outcome_unknown()` if its leader was interrupted before there was a final one."""
        if not self.done:
            return outcome_unknown()
        if self.error is not None:
            return self.error
        assert self.committed is not None
        return self.committed

    def answer(self, outcome_unknown: Callable[[], StoreError]) -> Committed:
        """The same, with an error raised."""
        found = self.outcome(outcome_unknown)
        if isinstance(found, Exception):
            raise found
        return found


def _followers(group: Sequence[_PendingCommit]) -> list[_PendingCommit]:
    """Those of a group whose threads wait for their leader: not its own."""
    return [pending for pending in group if pending.leader is not None]


class _UnattributedError(Exception):
    """An exception that is neither a refusal nor a driver's error, raised while several steps were planned."""

    def __init__(self, error: Exception) -> None:
        self.error = error


class Writer:
    """All writes of a store, one transaction at a time."""

    def __init__(self, database: Database, clock: Clock, connection: apsw.Connection | None) -> None:
        self._database = database
        self._clock = clock
        self._queue = WriterQueue()
        self._connection = connection
        self._cursor = connection.cursor() if connection is not None else None
        self._journal = Journal(database)
        self._group: list[_PendingCommit] = []
        """steps in the open transaction"""
        self._to_acknowledge: list[tuple[int, int]] = []
        """session numbers and seqs for the watermark, once the transaction is durable"""
        self._begun = False
        self._wal_suspect = False
        """COMMIT failed: checkpoint the log before it is used again"""
        self._now_us = 0
        self._suspended: Waiter | None = None
        """holds the write lock between `suspend` and `resume`"""
        self.transactions = 0

    # -- steps ----------------------------------------------------------------------------------------------------

    def commit(self, session: str, draft: Draft) -> Committed:
        """Commit one step durably, or raise and write nothing. StoreUnavailable: the outcome is unknown."""
        mine = _PendingCommit(session, draft)
        try:
            self._commit_own([mine])
        except LeaderLost:
            raise self._outcome_unknown() from None
        return mine.answer(self._outcome_unknown)

    def commit_all(self, steps: Sequence[tuple[str, Draft]]) -> list[Committed | BaseException]:
        """Commit these steps in one transaction; what `commit` would return or raise for each."""
        own = [_PendingCommit(session, draft) for session, draft in steps]
        if not own:
            return []
        own[0].exclusive = True  # a leader that took it as a follower would leave the others of this call
        self._commit_own(own)
        return [pending.outcome(self._outcome_unknown) for pending in own]

    def _commit_own(self, own: list[_PendingCommit]) -> None:
        """Have the steps of this thread committed, in one transaction with what other threads wait for."""
        faults.point("commit.enter")
        mine, group = own[0], own.copy()
        try:
            if self._queue.enter(mine):
                self._queue.take_followers(mine, group, MAX_GROUP)
                self._write(group)
        except BaseException:
            # Ctrl-C or an injected fault, no error of the store: whether followers were committed must not be guessed.
            if self._queue.holds(mine):
                self._interrupted(group)
            raise
        finally:
            try:
                self._queue.leave(mine, _followers(group))
            except BaseException:
                self._queue.leave(mine, _followers(group))
                raise

    def _write(self, group: list[_PendingCommit]) -> None:
        """Write the group in one transaction, or one by one if that fails. Afterwards each step has its result."""
        self._group = group
        try:
            self._write_rows(group)
        except DRIVER_ERRORS as error:
            if len(group) == 1:
                group[0].refuse(self._rollback_error(error, group[0].session))
                return
            self._write_each(group)
            self._return_unattributed(group)
            return
        except _UnattributedError as unattributed:
            self._write_each(group)
            is_of_a_step = any(type(pending.error) is type(unattributed.error) for pending in group)
            self._return_unattributed(group)
            if not is_of_a_step:
                raise unattributed.error from None  # from a signal handler in the leader's thread, of no step
            return
        except StoreError as error:
            for pending in group:
                pending.refuse(error)
            return
        faults.point("commit.written")
        self._queue.wake_served()
        self._commit(group)
        faults.point("commit.committed")

    def _write_each(self, group: list[_PendingCommit]) -> None:
        self._rollback()
        for pending in group:
            self._write([pending])

    def _return_unattributed(self, group: list[_PendingCommit]) -> None:
        """Requeue followers whose error may be that of a second signal in the leader's thread. Each writes itself then,
        where an error can only be its own: no caller gets another thread's exception."""
        foreign = [
            one for one in _followers(group) if one.error is not None and not isinstance(one.error, RelightError)
        ]
        for pending in foreign:
            pending.committed, pending.error, pending.done, pending.exclusive = None, None, False, True
            group.remove(pending)
        self._queue.requeue(foreign)

    def _write_rows(self, group: list[_PendingCommit]) -> None:
        cursor = self._ready()
        cursor.execute(_BEGIN)
        self._begun = True
        self._journal.begin(cursor)
        faults.point("commit.begun")
        at_us, now = self._clock.now_us(), self._clock.instant()
        self._now_us = now.us
        for pending in group:
            try:
                pending.committed = self._journal.plan(cursor, pending.session, pending.draft, at_us, now)
            except (*DRIVER_ERRORS, RelightError) as error:
                if not isinstance(error, RelightError):
                    raise
                pending.error = error  # a refusal: nothing of it was written
            # A draft that cannot be stored, or an exception from a signal handler in the leader's thread. With several
            # steps in the group we cannot tell which; writing them one by one finds out.
            except Exception as error:
                if len(group) > 1:
                    raise _UnattributedError(error) from None
                pending.error = error
        self._to_acknowledge = self._journal.flush(cursor)

    def _commit(self, group: list[_PendingCommit]) -> None:
        assert self._cursor is not None
        try:
            self._cursor.execute(_COMMIT)
            self._begun = False
            self._journal.end(self._cursor)
            self._database.check_in_place(self._now_us)
        except (apsw.Error, StoreError) as error:
            failure = self._commit_error(error) if isinstance(error, apsw.Error) else error
            for pending in group:
                pending.refuse(pending.error or failure)
            return
        self._database.watermark.write(self._to_acknowledge)
        for pending in group:
            pending.done = True
        self.transactions += 1

    def _interrupted(self, group: list[_PendingCommit]) -> None:
        """Settle the group after the leader was interrupted (Ctrl-C, an injected fault): unwritten followers
        requeue."""
        if self._connection is not None and self._connection.in_transaction:
            self._rollback()
        elif self._begun:  # SQLite is in no transaction although we began one, so COMMIT succeeded
            for pending in self._group:
                pending.done = True
        self._begun = False
        unwritten = [pending for pending in _followers(group) if not pending.done]
        for pending in unwritten:
            pending.committed = pending.error = None
            group.remove(pending)
        self._queue.requeue(unwritten)

    # -- everything else ------------------------------------------------------------------------------------------

    @contextmanager
    def transaction(self, session: str | None = None) -> Iterator[apsw.Cursor]:
        """An exclusive transaction: commits on normal exit, rolls back on an exception."""
        with self._exclusive():
            try:
                cursor = self._ready()
                cursor.execute(_BEGIN)
                self._journal.begin(cursor)
                yield cursor
            except (*DRIVER_ERRORS, StoreError) as error:
                raise self._rollback_error(error, session) from None
            except BaseException:
                self._rollback()
                raise
            try:
                cursor.execute(_COMMIT)
                self._journal.end(cursor)
            except apsw.Error as error:
                raise self._commit_error(error) from None
            self._database.check_in_place(self._clock.instant().us)
            self.transactions += 1

    @contextmanager
    def change(self, session: str | None = None) -> Iterator[apsw.Cursor]:
        """A transaction for changes other than steps. They are counted in the watermark, so that their loss is
        noticed."""
        with self.transaction(session) as cursor:
            yield cursor
            count = cursor.execute(SQL["count_change"]).fetchone()
        if count is not None:
            self._database.watermark.write([(CHANGES, count[0])])

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        mine = Waiter(exclusive=True)
        try:
            self._queue.enter(mine)
            self._queue.wake_served()
            yield
        finally:
            try:
                self._queue.leave(mine)
            except BaseException:
                self._queue.leave(mine)
                raise

    @property
    def journal(self) -> Journal:
        """The journal's rows; only for use inside a transaction."""
        return self._journal

    # -- the connection -------------------------------------------------------------------------------------------

    def _ready(self) -> apsw.Cursor:
        self._database.check_usable()
        if self._connection is not None and self._connection.in_transaction:
            self._rollback()  # a leader was interrupted while it rolled back
        if self._cursor is None:
            connection = self._database.connect_writer()
            if self._wal_suspect:
                _checkpoint_log(connection)
                self._wal_suspect = False
            self._connection, self._cursor = connection, connection.cursor()
        return self._cursor

    def _rollback(self) -> None:
        self._begun = False
        self._journal.forget()
        if self._connection is not None and self._connection.in_transaction:
            try:
                self._connection.execute(_ROLLBACK)
            except apsw.Error:
                self.close()  # which rolls back too

    def _rollback_error(self, error: Exception, session: str | None) -> StoreError:
        """Roll back, and return the store error to raise for a driver's error: nothing was written."""
        errno = self._connection.system_errno if self._connection is not None else 0
        self._rollback()
        if isinstance(error, StoreError):
            return error
        if isinstance(error, apsw.IOError | apsw.ReadOnlyError | apsw.CantOpenError):
            self.close()
        return store_error(error, self._database.where, session=session, system_errno=errno)

    def _commit_error(self, error: apsw.Error) -> StoreError:
        """Give up the connection after a failed COMMIT, and return the error to raise."""
        failure = self._rollback_error(error, None)
        self.close()
        # A failed fsync must not be retried on the same descriptors: the kernel may have dropped the dirty pages and
        # would report success. The next connection checkpoints the log first (`_checkpoint_log`).
        self._wal_suspect = True
        if isinstance(failure, StoreFull):  # certain: the frame that ends a transaction was not written
            return failure
        return self._outcome_unknown(evidence=failure.evidence or [failure.message], hints=failure.hints)

    def _outcome_unknown(self, evidence: Iterable[str] = (), hints: Iterable[str] = ()) -> StoreUnavailable:
        """The error for a step of which only `find_commit` can find out whether it was written."""
        where = self._database.where
        return StoreUnavailable(f"{where}: unknown whether the step was written", evidence=evidence, hints=hints)

    def close(self) -> None:
        """Close the connection; the next use opens another. Only for the holder of the write lock."""
        connection, self._connection, self._cursor = self._connection, None, None
        self._journal.forget()
        if connection is not None:
            connection.close()

    def suspend(self) -> None:
        """Wait for the write lock, keep it, and close the connection (before a fork)."""
        self._suspended = Waiter(exclusive=True)
        self._queue.enter(self._suspended)
        self._queue.wake_served()
        self.close()

    def in_child(self) -> Writer:
        """The writer of a forked child: no connection, and an empty queue, since its waiters are threads of the
        parent."""
        made = Writer(self._database, self._clock, None)
        made._wal_suspect = self._wal_suspect
        return made

    def resume(self) -> None:
        """Release the write lock that `suspend` took."""
        if self._suspended is not None:
            self._queue.leave(self._suspended)


def _checkpoint_log(connection: apsw.Connection) -> None:
    """Write the log into the database and truncate it: after a failed fsync its state on disk is unknown."""
    try:
        connection.wal_checkpoint("main", apsw.SQLITE_CHECKPOINT_TRUNCATE)
    except BaseException:
        connection.close()
        raise
