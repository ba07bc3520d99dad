"""The writer: one connection, and a leader who commits for all who wait.

A thread that finds nobody writing writes its own step. Others wait in line meanwhile; the next of them takes all the
others along into one transaction, so that many sessions share one fsync. Order: BEGIN IMMEDIATE; for each, read the
head, plan, insert the step, move the head; COMMIT; then everybody is told.

- A refusal (LeaseLost, Conflict, ...) concerns one step: it is decided before anything of that step is written.
- A driver's error before COMMIT undoes the whole transaction, and each step is tried again alone: damage under one
  session must not hurt the others.
- An error of COMMIT concerns all of them, and their outcome is unknown: fsync is not tried again, the connection is
  given up, and the next use opens a new one, which first rewrites what the log holds. `find_commit` tells the outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final

import apsw

from relight.errors import RelightError, StoreError, StoreFull, StoreUnavailable
from relight.ports import faults
from relight.ports.clock import Clock
from relight.stores.sqlite.commits import Journal
from relight.stores.sqlite.database import Database
from relight.stores.sqlite.driver import DRIVER_ERRORS, explained
from relight.stores.sqlite.group_commit import Orphaned, Waiter, WriterQueue
from relight.stores.sqlite.statements import SQL
from relight.stores.sqlite.watermark import CHANGES
from relight.values.step import Committed, Draft

MAX_TOGETHER: Final = 256
"""steps in one transaction"""
_BEGIN: Final = SQL["begin"]
_COMMIT: Final = SQL["commit"]
_ROLLBACK: Final = SQL["rollback"]


class _Wanted(Waiter):
    """One step on its way, and what became of it."""

    __slots__ = ("committed", "done", "draft", "error", "session")

    def __init__(self, session: str, draft: Draft) -> None:
        super().__init__()
        self.session = session
        self.draft = draft
        self.committed: Committed | None = None
        self.error: Exception | None = None
        self.done = False
        """what stands above is final"""

    def refuse(self, error: Exception) -> None:
        self.committed, self.error, self.done = None, error, True

    def answer(self, unknown: Callable[[], StoreError]) -> Committed:
        """What became of it; what is unknown where its leader was interrupted before that was final."""
        if not self.done:
            raise unknown()
        if self.error is not None:
            raise self.error
        assert self.committed is not None
        return self.committed


class _Foreign(Exception):
    """What is neither a refusal nor an error of the driver, while several steps were planned: whose is it?"""

    def __init__(self, error: Exception) -> None:
        self.error = error


class Writer:
    """Everything that writes goes through here, one transaction at a time."""

    def __init__(self, database: Database, clock: Clock, connection: apsw.Connection | None) -> None:
        self._database = database
        self._clock = clock
        self._turns = WriterQueue()
        self._connection = connection
        self._cursor = connection.cursor() if connection is not None else None
        self._journal = Journal(database)
        self._group: list[_Wanted] = []
        """what the open transaction holds"""
        self._told: list[tuple[int, int]] = []
        """and the seqs its writers will be told"""
        self._begun = False
        self._wal_suspect = False
        """COMMIT failed: what the log holds is rewritten before it is used again"""
        self._now_us = 0
        self._resting: Waiter | None = None
        """has the turn between `rest` and `wake`"""
        self.transactions = 0

    # -- steps ----------------------------------------------------------------------------------------------------

    def commit(self, session: str, draft: Draft) -> Committed:
        """One durable step, or an error and nothing."""
        faults.point("commit.enter")
        mine = _Wanted(session, draft)
        group = [mine]
        try:
            if self._turns.enter(mine):
                self._turns.companions(mine, group, MAX_TOGETHER)
                self._write(group)
        except Orphaned:
            raise self._unknown() from None
        except BaseException:
            if self._turns.holds(mine):
                self._interrupted(group)
            raise
        finally:
            try:
                self._turns.leave(mine, group[1:])
            except BaseException:
                self._turns.leave(mine, group[1:])
                raise
        return mine.answer(self._unknown)

    def _write(self, group: list[_Wanted]) -> None:
        """Write them together; where that does not work, one by one. Afterwards each has its answer."""
        self._group = group
        try:
            self._write_rows(group)
        except DRIVER_ERRORS as error:
            if len(group) == 1:
                group[0].refuse(self._undone(error, group[0].session))
                return
            self._write_each(group)
            return
        except _Foreign as foreign:
            self._write_each(group)
            if all(type(wanted.error) is not type(foreign.error) for wanted in group):
                raise foreign.error from None  # it belongs to no step
            return
        except StoreError as error:
            for wanted in group:
                wanted.refuse(error)
            return
        faults.point("commit.written")
        self._turns.wake()
        self._commit(group)
        faults.point("commit.committed")

    def _write_each(self, group: list[_Wanted]) -> None:
        self._undo()
        for wanted in group:
            self._write([wanted])

    def _write_rows(self, group: list[_Wanted]) -> None:
        cursor = self._ready()
        cursor.execute(_BEGIN)
        self._begun = True
        self._journal.begin(cursor)
        faults.point("commit.begun")
        at_us, now = self._clock.now_us(), self._clock.instant()
        self._now_us = now.us
        for wanted in group:
            try:
                wanted.committed = self._journal.plan(cursor, wanted.session, wanted.draft, at_us, now)
            except (*DRIVER_ERRORS, RelightError) as error:
                if not isinstance(error, RelightError):
                    raise
                wanted.error = error  # a refusal: nothing of it was written
            except Exception as error:  # a draft that cannot be stored; or the leader's own, from a signal handler
                if len(group) > 1:
                    raise _Foreign(error) from None
                wanted.error = error
        self._told = self._journal.flush(cursor)

    def _commit(self, group: list[_Wanted]) -> None:
        assert self._cursor is not None
        try:
            self._cursor.execute(_COMMIT)
            self._begun = False
            self._journal.end(self._cursor)
            self._database.check_there(self._now_us)
        except (apsw.Error, StoreError) as error:
            ours = self._doubted(error) if isinstance(error, apsw.Error) else error
            for wanted in group:
                wanted.refuse(wanted.error or ours)
            return
        self._database.told.write(self._told)
        for wanted in group:
            wanted.done = True
        self.transactions += 1

    def _interrupted(self, group: list[_Wanted]) -> None:
        """What is no error of the store (Ctrl-C, a planted fault) stopped the leader; its companions get another."""
        if self._connection is not None and self._connection.in_transaction:
            self._undo()
        elif self._begun:  # and not in a transaction any more, so COMMIT was through
            for wanted in self._group:
                wanted.done = True
        self._begun = False
        unserved = [wanted for wanted in group[1:] if not wanted.done]
        for wanted in unserved:
            wanted.committed = wanted.error = None
            group.remove(wanted)
        self._turns.put_back(unserved)

    # -- everything else ------------------------------------------------------------------------------------------

    @contextmanager
    def transaction(self, session: str | None = None) -> Iterator[apsw.Cursor]:
        """A transaction of one's own. Leaving it normally commits; an exception undoes it."""
        with self._alone():
            try:
                cursor = self._ready()
                cursor.execute(_BEGIN)
                self._journal.begin(cursor)
                yield cursor
            except (*DRIVER_ERRORS, StoreError) as error:
                raise self._undone(error, session) from None
            except BaseException:
                self._undo()
                raise
            try:
                cursor.execute(_COMMIT)
                self._journal.end(cursor)
            except apsw.Error as error:
                raise self._doubted(error) from None
            self._database.check_there(self._clock.instant().us)
            self.transactions += 1

    @contextmanager
    def change(self, session: str | None = None) -> Iterator[apsw.Cursor]:
        """A transaction that changes something else than a journal: counted, so that its loss is noticed."""
        with self.transaction(session) as cursor:
            yield cursor
            count = cursor.execute(SQL["count_change"]).fetchone()
        if count is not None:
            self._database.told.write([(CHANGES, count[0])])

    @contextmanager
    def _alone(self) -> Iterator[None]:
        mine = Waiter(alone=True)
        try:
            self._turns.enter(mine)
            self._turns.wake()
            yield
        finally:
            try:
                self._turns.leave(mine)
            except BaseException:
                self._turns.leave(mine)
                raise

    @property
    def journal(self) -> Journal:
        """How rows of the journal are written; only inside a transaction."""
        return self._journal

    # -- the connection -------------------------------------------------------------------------------------------

    def _ready(self) -> apsw.Cursor:
        self._database.check_usable()
        if self._connection is not None and self._connection.in_transaction:
            self._undo()  # of a leader that was interrupted while it did so itself
        if self._cursor is None:
            connection = self._database.connect_writer()
            if self._wal_suspect:
                _rewrite(connection)
                self._wal_suspect = False
            self._connection, self._cursor = connection, connection.cursor()
        return self._cursor

    def _undo(self) -> None:
        self._begun = False
        self._journal.forget()
        if self._connection is not None and self._connection.in_transaction:
            try:
                self._connection.execute(_ROLLBACK)
            except apsw.Error:
                self.close()  # which rolls back too

    def _undone(self, error: Exception, session: str | None) -> StoreError:
        """Nothing was written; our error for it."""
        errno = self._connection.system_errno if self._connection is not None else 0
        self._undo()
        if isinstance(error, StoreError):
            return error
        if isinstance(error, apsw.IOError | apsw.ReadOnlyError | apsw.CantOpenError):
            self.close()
        return explained(error, self._database.where, session=session, system_errno=errno)

    def _doubted(self, error: apsw.Error) -> StoreError:
        """COMMIT failed. Full is certain: the mark that ends a transaction was not written. All else is not."""
        ours = self._undone(error, None)
        self.close()
        self._wal_suspect = True
        if isinstance(ours, StoreFull):
            return ours
        return self._unknown(evidence=ours.evidence or [ours.message], hints=ours.hints)

    def _unknown(self, evidence: Iterable[str] = (), hints: Iterable[str] = ()) -> StoreUnavailable:
        """Only `find_commit` can tell."""
        where = self._database.where
        return StoreUnavailable(
            f"{where}: it is not known whether the step was written", evidence=evidence, hints=hints
        )

    def close(self) -> None:
        """Give the connection back. The next use opens another. Only for who has the turn."""
        connection, self._connection, self._cursor = self._connection, None, None
        self._journal.forget()
        if connection is not None:
            connection.close()

    def rest(self) -> None:
        """Wait for the turn, keep it, and give the connection back."""
        self._resting = Waiter(alone=True)
        self._turns.enter(self._resting)
        self._turns.wake()
        self.close()

    def in_child(self) -> Writer:
        """The writer of a forked child: without a connection, and with nobody in line."""
        made = Writer(self._database, self._clock, None)
        made._wal_suspect = self._wal_suspect
        return made

    def wake(self) -> None:
        """Let others write again."""
        if self._resting is not None:
            self._turns.leave(self._resting)


def _rewrite(connection: apsw.Connection) -> None:
    """After a failed fsync nobody knows what of the log is on the disk: write it into the database, and cut it."""
    try:
        connection.wal_checkpoint("main", apsw.SQLITE_CHECKPOINT_TRUNCATE)
    except BaseException:
        connection.close()
        raise
