"""One thread in this program: its session, its index, and which run may write to it.

    update the index -> does the thread exist? -> is another run of this program using it? -> claim the lease -> write

A run that lost the thread once is refused for good: another writer has continued from there, and its further writes
belong to a history that is no longer the thread's. A deleted thread is remembered with the time of its deletion: a
write that names an older checkpoint is late and refused. A program that did not see the deletion recognises a late
write by its checkpoint, which is older than the thread and not in it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from relight.errors import Conflict, Corrupt, LeaseHeld, LeaseLost, NotFound, ThreadBusy, ThreadGone
from relight.frameworks.langgraph import naming
from relight.frameworks.langgraph.conversation import AGENT
from relight.frameworks.langgraph.early_writes import EarlyWrites
from relight.frameworks.langgraph.index import PAGE_RECORDS, Index, Link
from relight.frameworks.langgraph.lists import Live
from relight.frameworks.langgraph.records import is_paged
from relight.frameworks.langgraph.runs import Caller, Pulse, Run
from relight.journal.codec import Undecodable
from relight.sessions import record_log as ledgers
from relight.sessions.context import Context
from relight.sessions.record_log import Entry, RecordLog
from relight.values.status import StatusChange
from relight.values.step import StepKind

_EPOCH_OF_UUIDS: Final = 0x01B21DD213814000
"""1582-10-15 to 1970 in units of 100 ns"""
_RUNS_KEPT: Final = 32
_BEGIN_TRIES: Final = 3


def uuid_time(id: str | None) -> int | None:
    """Creation time in a LangGraph id, in 100 ns since 1582; None if it has none."""
    plain = (id or "").replace("-", "")
    if len(plain) != 32 or plain[12] != "6":
        return None
    try:
        return int(plain[:12] + plain[13:16], 16)
    except ValueError:
        return None


class Thread:
    """One thread as this program sees it. Public methods are called with its lock held."""

    def __init__(self, context: Context, thread_id: str, *, lease_seconds: float) -> None:
        self.id = thread_id
        self.lock = threading.RLock()
        self.index = Index()
        self.live: dict[tuple[str, str], Live | tuple[int, dict[str, Any]]] = {}
        """(namespace, channel) -> the list, or (record, mapping), saved or loaded last"""
        self.run: Run | None = None
        self._context = context
        self._seconds = lease_seconds
        self._ledger: RecordLog | None = None
        self._settled = False
        self._held_epoch: int | None = None
        self._pulse: Pulse | None = None
        self.rested: StatusChange | None = None
        """status before the lease was claimed; None if the thread was new"""
        self._rests: tuple[Run, StatusChange] | None = None
        """the run that released the lease with an interrupt or error, and its status"""
        self._deleted_at: int | None = None
        self.early_writes = EarlyWrites()
        """writes that arrived before their checkpoint"""
        self._barred: list[tuple[Run, bool]] = []
        """runs that may not write any more -> whether the thread was deleted"""

    # -- reading ----------------------------------------------------------------------------------------------

    def look(self) -> bool:
        """Update the index to the newest records; False if the thread does not exist."""
        try:
            if self._ledger is None:
                record = naming.locate(self._context, self.id)
                if record is None:
                    return False
                self._ledger = ledgers.open_log(self._context, record)
            ledger = self._by_pages(self._ledger)
            self._absorb(ledger, ledger.read_new())
        except NotFound:
            self.forget()
            return self.look()
        except Corrupt as error:
            raise self.helped(error) from None
        return True

    def _by_pages(self, ledger: RecordLog) -> RecordLog:
        """Open the thread beginning at its last page."""
        ledger.start, ledger.min_seq = is_paged, PAGE_RECORDS
        return ledger

    def _absorb(self, ledger: RecordLog, news: ledgers.NewEntries) -> None:
        entries = news.entries
        if news.replaces:
            self.index, self.live = Index(self._reader(ledger)), {}
            if news.partial:
                if self.index.open(entries[0], ledger.read_one):
                    entries = entries[1:]
                else:
                    self.index, entries = Index(), ledger.read_all().entries
        try:
            for entry in entries:
                self._take(entry)
        except Corrupt:
            ledger.restart_reading()  # or the next read would continue after it
            raise

    def _reader(self, ledger: RecordLog) -> Callable[[Link, Link], list[Entry]]:
        """What reads records that the pages of this very session name, whatever becomes of the thread."""

        def read(after: Link, upto: Link) -> list[Entry]:
            try:
                return ledger.read_between(after, upto)
            except NotFound:
                raise ThreadGone(self.id) from None
            except Corrupt as error:
                raise self.helped(error) from None

        return read

    def _take(self, entry: Entry) -> None:
        try:
            self.index.add(entry)
        except Undecodable as error:
            assert self._ledger is not None
            raise self._ledger.unreadable(entry.seq, f"its record cannot be read: {error}") from None

    def helped(self, error: Corrupt) -> Corrupt:
        """The error with hints for LangGraph users."""
        if error.offered is not None:
            error.hints = (f"continue from it: saver.recover({self.id!r})", *error.hints)
        return error

    def damaged(self, seq: int, what: str) -> Corrupt:
        """The error for a value that cannot be assembled: the step that refers to it is damaged."""
        assert self._ledger is not None
        return self.helped(self._ledger.unreadable(seq, what))

    def forget(self) -> None:
        """The session was deleted: runs that worked on it must not recreate it."""
        self._deleted_at = self._stamp(self._context.clock.now_us())
        self.early_writes = EarlyWrites()
        if self.run is not None:
            self._bar(self.run, deleted=True)
        self._begin_anew()

    @property
    def is_idle(self) -> bool:
        """Whether it can be evicted without losing who writes to it, or that it was deleted."""
        return not self.is_deleted and not self.early_writes and (self.run is None or not self.run.is_alive)

    @property
    def is_deleted(self) -> bool:
        """Whether this program knows that it was deleted; it may have been created again since."""
        return self._deleted_at is not None

    @property
    def name(self) -> str:
        """Name or id of its session, for messages."""
        return self._ledger.name if self._ledger is not None else self.id

    @property
    def identity(self) -> Any:
        """Id of its session; None if there is none."""
        return self._ledger.identity if self._ledger is not None else None

    @property
    def status(self) -> StatusChange:
        """The status it has, or would have if its owner ended."""
        assert self._ledger is not None
        head = self._ledger.head
        if head.status in ("waiting", "completed", "failed", "halted", "terminated"):
            return StatusChange(status=head.status, reason=head.reason, failure=head.failure)
        return StatusChange(status="terminated", reason="left")

    @property
    def holds(self) -> bool:
        """Whether this program holds its lease."""
        return self._ledger is not None and self._ledger.owns

    # -- who may write ----------------------------------------------------------------------------------------

    def enter(
        self,
        token: object | None,
        *,
        nested: bool,
        begins: bool,
        may_create: bool,
        named: Sequence[str | None] = (),
    ) -> None:
        """Hold the lease for this caller, or raise: ThreadBusy, ThreadGone, Corrupt.

        `begins`: a run starts here, so that it may take up what another one left. `named`: what a write builds on.
        """
        self._refuse_barred(token)
        self._refuse_second(token, nested)
        if not may_create and not nested and not self._is_at_it(token):
            self._refuse_former(named)
        if self._ledger is None or not self._ledger.owns:
            self._own(token, begins=begins, may_create=may_create, named=named)
        assert self._ledger is not None
        if token is not None and not nested and (self.run is None or not self.run.is_of(token)):
            self.run = Run(token, Caller.current())
        if self.run is not None and self._pulse is None:
            self._pulse = Pulse(self._ledger.recorder, self.run, quiet_seconds=self._seconds, over=self._over)
            self._context.heartbeat.add(self._pulse)

    def _refuse_barred(self, token: object | None) -> None:
        self._barred = [(run, deleted) for run, deleted in self._barred if run.is_alive][-_RUNS_KEPT:]
        for run, deleted in self._barred:
            if token is not None and run.is_of(token):
                if deleted:
                    raise ThreadGone(self.id)
                raise ThreadBusy(self.id, "another run took the thread over and has written since")

    def is_barred(self, token: object | None) -> bool:
        """Whether waiting cannot help this caller."""
        return token is not None and any(run.is_of(token) for run, _ in self._barred)

    def _refuse_second(self, token: object | None, nested: bool) -> None:
        run = self.run
        if run is None or nested or (token is not None and run.is_of(token)):
            return
        if run.is_over_for(Caller.current()):
            # Barred, because it may still continue: a stream that its caller abandoned before its end.
            self._bar(run, deleted=False)
        elif self._ledger is not None and self._ledger.owns and run.is_surely_alive():
            raise ThreadBusy(self.id, "another run in this process is writing to it")
        self._stop_beating()
        self.run = None

    def _is_at_it(self, token: object | None) -> bool:
        return token is not None and self.run is not None and self.run.is_of(token)

    def _refuse_former(self, named: Sequence[str | None]) -> None:
        """ThreadGone if a write is based on a checkpoint that is older than this thread and not in it."""
        # Such a checkpoint belongs to a thread of the same id that was deleted, perhaps by another program.
        for id in named:
            made = uuid_time(id)
            if made is None or self._has(id) or (self.look() and self._has(id)):
                continue
            if self._ledger is None or made < self._stamp(self._ledger.identity.created_us):
                raise ThreadGone(self.id)

    def may_come(self, id: str) -> bool:
        """Whether a missing checkpoint that a write names may still be saved."""
        # It may if this program never saw the thread, or if it is older than the thread but newer than checkpoints in
        # it: then an older history is being copied in.
        is_there = self.look()
        if self.is_deleted or self._has(id):
            return False
        if not is_there or self._ledger is None:
            return True
        made, begun = uuid_time(id), self._stamp(self._ledger.identity.created_us)
        if made is None or made >= begun:
            return False
        times = (uuid_time(one) for space in self.index.spaces.values() for one in space)
        return any(time is not None and time < made for time in times)

    def _has(self, id: str | None) -> bool:
        return any(id in space for space in self.index.spaces.values())

    def _own(self, token: object | None, *, begins: bool, may_create: bool, named: Sequence[str | None]) -> None:
        is_same = self._is_at_it(token)
        for _ in range(_BEGIN_TRIES):
            if self._ledger is None and not self.look():
                if not may_create:
                    raise ThreadGone(self.id)
                self._ledger = naming.begin(self._context, self.id)
            assert self._ledger is not None
            try:
                self._claim(self._ledger, is_same and not begins)
                return
            except NotFound:
                self.forget()
                self._refuse_barred(token)
                self.check_named(named)
        raise Conflict(f"thread {self.id!r}: it kept being deleted and created again")

    def _claim(self, ledger: RecordLog, goes_on: bool) -> None:
        """Claim the lease on the newest state; after a pause the old lease may still be valid."""
        try:
            for news in ledgers.read_and_claim(self._by_pages(ledger), self._seconds):
                self._absorb(ledger, news)
                # The run has paused and another owner has claimed since: its further writes belong to another history.
                if goes_on and ledger.head.epoch != self._held_epoch:
                    assert self.run is not None
                    self._bar(self.run, deleted=False)
                    self._refuse_barred(self.run.token)
                self.rested = self.status if ledger.head.seq else None
                if not self._settled:
                    ledger.identity = naming.settle(self._context, ledger)
                    self._settled = True
        except LeaseHeld as error:
            raise ThreadBusy(self.id, f"{error.owner}, until {error.until}", evidence=error.evidence) from None
        except Corrupt as error:
            raise self.helped(error) from None
        self._held_epoch = ledger.head.epoch

    def _bar(self, run: Run, *, deleted: bool) -> None:
        self._barred.append((run, deleted))

    def check_named(self, ids: Sequence[str | None]) -> None:
        """ThreadGone if one of these checkpoints is older than a deletion of the thread."""
        if self._deleted_at is None:
            return
        for id in ids:
            if id is None or self._has(id):
                continue
            made = uuid_time(id)
            if made is None or made <= self._deleted_at:
                raise ThreadGone(self.id)

    def _stamp(self, at_us: int) -> int:
        return at_us * 10 + _EPOCH_OF_UUIDS

    # -- writing ----------------------------------------------------------------------------------------------

    def append(self, data: bytes, kind: StepKind, *, rests: StatusChange | None = None) -> int:
        """Commit one record; its seq. With `rests` the same commit releases the lease."""
        ledger = self._ledger
        assert ledger is not None
        try:
            entry = ledger.append(data, kind, status=rests, release=rests is not None)
        except LeaseLost:
            if self.run is not None:
                self._bar(self.run, deleted=False)
            self._stop_beating()
            raise ThreadBusy(self.id, "another process claimed it while this one did not renew its lease") from None
        except NotFound:
            self.forget()
            raise ThreadGone(self.id) from None
        if ledger.is_current:
            self._take(entry)
        else:
            self._absorb(ledger, ledger.read_new())
        if rests is not None:
            self._stop_beating()
        return entry.seq

    def rests_still(self, token: object | None) -> StatusChange | None:
        """The status change if the caller's run has released already: a parallel branch has ended too."""
        if self._rests is None or token is None or not self._rests[0].is_of(token):
            return None
        return self._rests[1]

    def has_rested(self, token: object | None, how: StatusChange) -> None:
        """Note that a run released the lease with an interrupt or error."""
        run = self.run if self.run is not None and self.run.is_of(token) else None
        self._rests = (run, how) if run is not None else None

    def _stop_beating(self) -> None:
        if self._pulse is not None:
            self._context.heartbeat.remove(self._pulse)
            self._pulse = None

    def _over(self, pulse: Pulse) -> None:
        """Called by the heartbeat when a run ended without a last write; does nothing while the thread is in use."""
        # Non-blocking: the thread that holds the lock is writing or releasing, and the heartbeat of all threads must
        # not wait.
        if self.lock.acquire(blocking=False):
            try:
                if self._pulse is pulse and self._ledger is not None:
                    self._stop_beating()
                    self._ledger.release(StatusChange(status="terminated", reason="left"))
            finally:
                self.lock.release()

    def leave(self, how: StatusChange) -> None:
        """Release the lease, whatever its run does."""
        if self._ledger is not None and self._ledger.owns:
            self._ledger.release(how)
        self._stop_beating()
        self.run = None

    # -- as a whole -------------------------------------------------------------------------------------------

    def replace(self, records: Sequence[tuple[bytes, StepKind]], status: StatusChange) -> None:
        """Replace all records by these. The lease must be held."""
        ledger = self._ledger
        assert ledger is not None
        naming.replace(self._context, ledger.identity, list(records), status)
        self._begin_anew()

    def delete(self) -> None:
        """Remove the thread with all data, even while it is in use."""
        found = {one.identity.id: one.identity for one in ledgers.list_logs(self._context, agent=AGENT, key=self.id)}
        going = [identity for identity in found.values() if identity.parent is None]
        here = naming.locate(self._context, self.id)
        if here is not None and here.identity.id not in found:
            going.append(here.identity)
        if going:
            with suppress(NotFound):  # another process may have removed it first
                ledgers.remove(self._context, going)
        self.forget()

    def recover(self, read: Callable[[], object]) -> None:
        """Return to the newest checkpoint that `read` can read, after damage."""
        record = naming.locate(self._context, self.id)
        if record is None:
            raise ThreadGone(self.id)
        ledgers.rewind_to_whole(self._context, record.identity)
        while True:
            self._begin_anew()
            try:
                self.look()
                read()
                return
            except Corrupt as error:
                if error.seq is None or not ledgers.rewind_to_whole(self._context, record.identity, before=error.seq):
                    raise

    def _begin_anew(self) -> None:
        """Switch to another session or head."""
        self._stop_beating()
        self._ledger, self._settled, self._held_epoch = None, False, None
        self.index, self.live, self.run = Index(), {}, None


def named_by(config: Mapping[str, Any], metadata: Mapping[str, Any] | None = None) -> list[str | None]:
    """The checkpoints that a write is based on: its parent, and those of the enclosing graphs."""
    configurable = config["configurable"]
    ids: list[str | None] = [configurable.get("checkpoint_id")]
    for held in (configurable.get("checkpoint_map"), (metadata or {}).get("parents")):
        if isinstance(held, Mapping):
            ids += [str(one) for one in held.values()]
    return ids
