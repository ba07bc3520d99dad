"""Record log: a session whose steps each hold one record of a framework, opaque to the fold.

A framework has its own notion of state (LangGraph: checkpoints of channels), so its records are stored as data of the
steps, under the same digest chain, lease, retention and commands. A record is written as bytes that were encoded once
and is read as bytes, so that a listing need not decode what it does not show.

    read_new (also: who owns it?) -> claim, one step -> append, one step each -> the last may release the lease

Where a record repeats what is before it (`start`), reading begins at the newest such record; what is before it is read
on demand, by the digests that record names. If anything does not fit, everything is read.

Not thread-safe: the caller holds a lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from relight.errors import Conflict, Corrupt, HasForks, LeaseLost, NotFound
from relight.history.listing import every_session
from relight.history.loading import Found, chain_of, newest_whole
from relight.history.repair import go_back_to_whole
from relight.history.rewind import rewind
from relight.journal.chain import broken_links, step_digest
from relight.journal.codec import Undecodable, decode_records, encode_changes
from relight.journal.commit import plan_commit
from relight.journal.fold import Fold
from relight.journal.leases import next_attempt
from relight.journal.lineage import stretches, visible
from relight.journal.status import derived_status
from relight.operations.retention import tombstones_for
from relight.ports.store import Query, Record
from relight.sessions.context import Context
from relight.sessions.opening import (
    create,
    evidence_of,
    here,
    new_identity,
    own_claim,
    refuse_archived,
    refuse_untrusted,
)
from relight.sessions.recorder import Recorder
from relight.values.session import GENESIS, Head, Identity
from relight.values.status import StatusChange
from relight.values.step import AttemptStart, Changes, Claim, Draft, Step, StepKind

_CLAIM_TRIES: Final = 5
_FIRST_READ: Final = 64
_MAX_READ: Final = 1024
"""steps read backwards from the end before falling back to reading everything"""


class Entry(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One step with a record, still encoded."""

    seq: int
    at_us: int
    data: bytes
    digest: bytes
    """of the step, not of the record"""


class NewEntries(msgspec.Struct, frozen=True, kw_only=True):
    """What `RecordLog.read_new` returns: the entries written since the last read."""

    entries: Sequence[Entry]
    replaces: bool
    """these replace all entries read before"""
    partial: bool = False
    """the first entry is a `start` record: earlier entries exist and were not read"""


class RecordLog:
    """The records of one session, as the program that writes them sees it."""

    def __init__(self, context: Context, found: Found) -> None:
        self._context = context
        self.identity = found.identity
        recording = context.recording(found.identity)
        self._recorder = Recorder(
            context.store, context.entropy, found.identity, found.whole_head(), Fold(), Fold, recording
        )
        self._seen, self._digest = 0, GENESIS
        self._path_head = 0
        """the visible step that the next one builds on"""
        self.start: Callable[[bytes], bool] | None = None
        """whether a record repeats what is before it; the first read then begins at the newest one that does"""
        self.min_seq = 0
        """up to this seq `start` is not used: reading everything is as fast"""

    @property
    def head(self) -> Head:
        """The newest head this program has seen."""
        return self._recorder.head

    @property
    def recorder(self) -> Recorder:
        """The recorder, for the heartbeat."""
        return self._recorder

    @property
    def owns(self) -> bool:
        """Whether this program holds the lease, as far as it knows."""
        return self._recorder.owns and self._recorder.epoch == self._recorder.head.epoch

    @property
    def name(self) -> str:
        """Name if there is one, else id."""
        return self.identity.name or self.identity.id

    # -- reading ----------------------------------------------------------------------------------------------

    def read_new(self) -> NewEntries:
        """Entries written since the last read. NotFound if the session is gone, Corrupt if it is damaged."""
        record = self._context.store.find(self.identity.id)
        if record is None:
            raise NotFound(self.name)
        if record.head is None:
            raise self._corrupt("its head row fails its seal", None)
        head = record.head
        if not self._recorder.owns:
            self._recorder.head = head
        if head.seq == self._seen and head.digest == self._digest:
            return NewEntries(entries=(), replaces=False)
        if self._seen:
            news = self._read(head, self._seen)
            if news is not None:
                return news
        self.restart_reading()
        partial = self._read_end(head) if self.start is not None and head.seq > self.min_seq else None
        return partial or self._read_whole(head)

    def read_all(self) -> NewEntries:
        """All entries from the beginning, as if nothing had been read before."""
        record = self._context.store.find(self.identity.id)
        if record is None:
            raise NotFound(self.name)
        if record.head is None:
            raise self._corrupt("its head row fails its seal", None)
        self.restart_reading()
        return self._read_whole(record.head)

    def restart_reading(self) -> None:
        """Forget what was read, so that the next read returns everything."""
        self._seen, self._digest, self._path_head = 0, GENESIS, 0

    def _read_whole(self, head: Head) -> NewEntries:
        news = self._read(head, 0)
        assert news is not None
        return NewEntries(entries=news.entries, replaces=True)

    def _read_end(self, head: Head) -> NewEntries | None:
        """The entries from the newest `start` record on; None if none is near, or if anything does not fit."""
        assert self.start is not None
        try:
            steps, found = self._end(head.seq, self.start)
            if not steps:
                return None
            first = steps[0].seq
            before = self._steps(first - 2, first - 1)[-1].digest if first > 1 else GENESIS
            path = visible({step.seq: step.base for step in steps}, head=head.head, since=0)
            if (
                steps[-1].digest != head.digest
                or path[:1] != [first]
                or any(step.kind == "rewind" for step in steps)
                or any(broken_links(steps, after=first - 1, digest=before))
            ):
                return None
        except (Corrupt, IndexError):
            return None  # reading everything reports what is wrong, and where
        self._seen, self._digest, self._path_head = head.seq, head.digest, head.head
        on_path = set(path)
        return NewEntries(entries=[entry for entry in found if entry.seq in on_path], replaces=True, partial=True)

    def _end(self, upto: int, start: Callable[[bytes], bool]) -> tuple[list[Step], list[Entry]]:
        """The last steps and their entries, from the newest `start` record on; empty if it is not near."""
        steps: list[Step] = []
        entries: list[Entry] = []
        low, size = upto, _FIRST_READ
        while low > 0 and upto - low < _MAX_READ:
            high, low = low, max(0, low - size)
            part = self._steps(low, high)
            if len(part) != high - low:
                break
            found = self._decoded(part)
            steps, entries = part + steps, found + entries
            begins = [entry.seq for entry in found if start(entry.data)]
            if begins:
                return steps[begins[-1] - steps[0].seq :], entries
            if any(step.kind == "rewind" for step in part):
                break
            size *= 2
        return [], []

    def read_one(self, seq: int, digest: bytes) -> Entry | None:
        """The entry of the step with this digest; None if there is no such step."""
        steps = self._steps(max(seq - 2, 0), seq)
        before = steps[0].digest if seq > 1 and steps else GENESIS
        if not steps or steps[-1].seq != seq or steps[-1].digest != digest or step_digest(before, steps[-1]) != digest:
            return None
        entries = self._decoded(steps[-1:])
        return entries[0] if entries else None

    def read_between(self, after: tuple[int, bytes], upto: tuple[int, bytes]) -> list[Entry]:
        """The visible entries between two steps given by seq and digest. NotFound, Corrupt as in `read_new`."""
        steps = self._steps(after[0], upto[0])
        by_seq = {step.seq: step for step in steps}
        path = visible({seq: step.base for seq, step in by_seq.items()}, head=upto[0], since=0)
        broken = {one.seq for one in broken_links(steps, after=after[0], digest=after[1])}
        fits = path and by_seq[path[0]].base == after[0] and by_seq[upto[0]].digest == upto[1]
        if fits and broken.isdisjoint(path):
            return self._decoded([by_seq[seq] for seq in path[:-1]])
        RecordLog(self._context, Found(identity=self.identity, head=self.head, seq=None)).read_new()
        raise self._corrupt("the step contradicts the steps before it", upto[0])

    def _read(self, head: Head, after: int) -> NewEntries | None:
        """The visible entries after `after`; None if they do not simply follow, and everything must be read again."""
        steps = self._steps(after, head.seq)
        if after and (not steps or any(step.kind == "rewind" for step in steps)):
            return None
        broken = {one.seq: one.what for one in broken_links(steps, after=after, digest=self._digest)}
        last = steps[-1] if steps else None
        if head.seq and (last is None or last.seq < head.seq):
            raise self._corrupt("the step is missing", (last.seq if last else after) + 1)
        if last is not None and last.digest != head.digest:
            broken.setdefault(last.seq, "the step is not the one the session row names")
        by_seq = {step.seq: step for step in steps}
        path = visible({seq: step.base for seq, step in by_seq.items()}, head=head.head, since=0)
        if path and by_seq[path[0]].base != (self._path_head if after else 0):
            if after:
                return None
            raise self._corrupt("the step is missing", by_seq[path[0]].base)
        wrong = [seq for seq in path if seq in broken]
        if wrong:
            raise self._corrupt(broken[wrong[0]], wrong[0])
        # Damage off the visible path does not matter, except at the newest step: it alone proves that nothing was cut
        # off. A rewind written to leave damage behind links to a broken step and is whole if the head names its digest.
        if last is not None and last.seq in broken and not (last.kind == "rewind" and last.digest == head.digest):
            raise self._corrupt(broken[last.seq], last.seq)
        entries = self._decoded([by_seq[seq] for seq in path])
        self._seen, self._digest, self._path_head = head.seq, head.digest, head.head
        return NewEntries(entries=entries, replaces=False)

    def _steps(self, after: int, upto: int) -> list[Step]:
        chain = chain_of(self._context.store, self.identity)
        return [
            step
            for stretch in stretches(chain, after=after, upto=upto)
            for step in self._context.store.steps(stretch.session, after=stretch.after, upto=stretch.upto)
        ]

    def _decoded(self, steps: list[Step]) -> list[Entry]:
        found: list[Entry] = []
        at = 0
        try:
            for at, data in enumerate(decode_records([step.body for step in steps])):
                if data:
                    step = steps[at]
                    found.append(Entry(seq=step.seq, at_us=step.at_us, data=data, digest=step.digest))
        except Undecodable as error:
            bad = steps[min(at + 1, len(steps) - 1)] if found or at else steps[0]
            raise self._corrupt(f"the step cannot be read: {error}", bad.seq) from None
        return found

    def _corrupt(self, what: str, seq: int | None) -> Corrupt:
        store = self._context.store
        chain = chain_of(store, self.identity)
        below = seq if seq is not None else max((step.seq for step in store.steps(self.identity.id)), default=0) + 1
        offered = newest_whole(store, chain, below=below)
        ref = f"{self.name}@{offered}" if offered is not None else None
        return Corrupt(what, session=self.name, seq=seq, offered=ref)

    def unreadable(self, seq: int, what: str) -> Corrupt:
        """Corrupt for a record that its framework cannot decode."""
        return self._corrupt(what, seq)

    # -- writing ----------------------------------------------------------------------------------------------

    def claim(self, seconds: float) -> None:
        """Take the lease and begin an attempt on the newest state read. LeaseHeld, Conflict."""
        recorder, context = self._recorder, self._context
        head = recorder.head
        refuse_archived(Found(identity=self.identity, head=head, seq=None))
        evidence = evidence_of(context, head)
        claim = own_claim(context, self.identity, head, seconds=seconds)
        attempt = next_attempt(head, claim.owner, derived_status(head, evidence))
        changes = Changes(attempt=attempt, status=StatusChange(status="working"))
        recorder.lost = None
        context.heartbeat.claims.add(claim.owner.id, recorder)
        recorder.commit("attempt", changes, claim=claim)
        self._mark_committed_read()

    def append(
        self, data: bytes, kind: StepKind, *, status: StatusChange | None = None, release: bool = False
    ) -> Entry:
        """Commit one step with this record. LeaseLost if another owner has claimed, NotFound if the session is gone."""
        recorder = self._recorder
        if recorder.lost is not None:
            raise recorder.lost
        if not self.owns:
            raise LeaseLost(self.name, mine=recorder.epoch, current=recorder.head.epoch)
        try:
            checkpoint = recorder.commit(kind, Changes(record=msgspec.Raw(data), status=status), release=release)
        except (LeaseLost, NotFound) as error:
            recorder.lost = error
            raise
        self._mark_committed_read()
        head = recorder.head
        return Entry(seq=checkpoint.seq, at_us=head.updated_us, data=data, digest=head.digest)

    def release(self, status: StatusChange) -> None:
        """Release the lease with the status the session ends in."""
        if self.owns and self._recorder.lost is None:
            self._recorder.commit("status", Changes(status=status), release=True)
            self._mark_committed_read()

    def _mark_committed_read(self) -> None:
        """Our own commit needs no reading: only the owner writes."""
        head = self._recorder.head
        if head.seq == self._seen + 1:
            self._seen, self._digest, self._path_head = head.seq, head.digest, head.head

    @property
    def is_current(self) -> bool:
        """Whether everything up to the known head was read."""
        return self._seen == self._recorder.head.seq and not self._recorder.has_unknown_commit


def create_log(context: Context, name: str | None, fields: Mapping[str, Any]) -> RecordLog:
    """A new session without records, of the program's directory. Conflict if the name is taken."""
    return RecordLog(context, create(context, new_identity(context, name, {**here(), **fields})))


def list_logs(context: Context, *, agent: str, key: str | None = None) -> Iterator[Record]:
    """All sessions of an agent, or those with this key; newest first, damaged ones included."""
    return every_session(context.store, Query(agent=agent, key=key))


def open_log(context: Context, record: Record) -> RecordLog:
    """The record log of a session. Corrupt if its head row is damaged, NotResumable if it is an untrusted import."""
    refuse_untrusted(Found(identity=record.identity, head=record.head, seq=None))
    if record.head is None:
        name = record.identity.name or record.identity.id
        chain = chain_of(context.store, record.identity)
        newest = max((step.seq for step in context.store.steps(record.identity.id)), default=0)
        offered = newest_whole(context.store, chain, below=newest + 1)
        ref = f"{name}@{offered}" if offered is not None else None
        raise Corrupt("its head row fails its seal", session=name, offered=ref)
    return RecordLog(context, Found(identity=record.identity, head=record.head, seq=None))


def remove(context: Context, identities: Sequence[Identity]) -> None:
    """Remove sessions with all their bytes, even if they are owned: the owner's next write is refused."""
    ids = [identity.id for identity in identities]
    for identity in identities:
        forks = [one.identity for one in every_session(context.store, Query(parent=identity.id))]
        others = [fork.name or fork.id for fork in forks if fork.id not in ids]
        if others:
            raise HasForks(identity.name or identity.id, others)
    if ids:
        with tombstones_for(context, ids, policy=None):
            context.store.delete(ids)


def rewind_to_whole(context: Context, identity: Identity, *, before: int | None = None) -> bool:
    """Rewind a damaged session to its newest whole checkpoint; False if nothing is broken.

    `before`: a step that is whole, but whose record the framework cannot read; False if nothing is whole before it.
    """
    record = context.store.find(identity.id)
    if record is None:
        raise NotFound(identity.name or identity.id)
    found = Found(identity=record.identity, head=record.head, seq=None)
    if before is None:
        return go_back_to_whole(context, found) is not None
    good = newest_whole(context.store, chain_of(context.store, identity), below=before)
    if good is not None:
        rewind(context, msgspec.structs.replace(found, seq=good))
    return good is not None


def write_whole(
    context: Context, identity: Identity, records: Sequence[tuple[bytes, StepKind]], status: StatusChange
) -> None:
    """Write a session with all its records in one transaction, unowned. Conflict if the id exists or the name is
    taken."""
    owner = context.host.owner(context.entropy.session_id())
    head = Head(session=identity.id)
    now, at_us = context.store.instant(), context.clock.now_us()
    steps: list[tuple[Step, Sequence[Any]]] = []
    recording = context.recording(identity)

    def add(kind: StepKind, changes: Changes, *, claim: Claim | None = None, release: bool = False) -> None:
        nonlocal head
        changes = recording.changes(changes)
        draft = Draft(
            kind=kind,
            body=encode_changes(changes),
            key=context.entropy.key(),
            epoch=head.epoch,
            owner=owner.id,
            claim=claim,
            release=release,
            status=changes.status,
            attempt=changes.attempt,
        )
        committed = plan_commit(head, draft, at_us=at_us, now=now)
        head = committed.head
        steps.append((committed.step, ()))

    attempt = AttemptStart(number=1, owner=owner.label)
    working = StatusChange(status="working")
    add("attempt", Changes(attempt=attempt, status=working), claim=Claim(owner=owner, seconds=1.0, expected_epoch=0))
    for data, kind in records:
        add(kind, Changes(record=msgspec.Raw(data)))
    add("status", Changes(status=status), release=True)
    context.store.import_sessions([Record(identity=identity, head=head)], steps, ())


def rename(context: Context, identity: Identity, **fields: Any) -> Identity:
    """Change the name or key of a session."""
    return context.store.update(identity.id, partial(msgspec.structs.replace, **fields))


def read_and_claim(ledger: RecordLog, seconds: float) -> Iterator[NewEntries]:
    """Read, then claim what was read; again if another process was faster. Yields what each read found."""
    for number in range(_CLAIM_TRIES):
        yield ledger.read_new()
        try:
            ledger.claim(seconds)
        except Conflict:
            if number + 1 == _CLAIM_TRIES:
                raise
            continue
        return
