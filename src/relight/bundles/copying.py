"""Copying sessions from one store into another, of any kind: unchanged, step by step, with their captured files.

Order: a session comes after those that it depends on (the one it was forked from, the one that started it), whatever
order they were named in. Each is one transaction of the destination: its files first, then all of it at once. So after
a kill every session is there whole or not at all, and the next copy continues; what is there already is not written
twice. Every step is checked by its digest as it is read, and every copied session is read back and verified at the end.

The source is only read. A session that runs is copied up to its head; copied again later it is replaced, if what is
there is still the beginning of it. A session of the destination that went on by itself is never touched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec

from relight.errors import Conflict, Corrupt, RelightError, SnapshotSwept, UsageError
from relight.history.listing import every_session
from relight.history.loading import Found, chain_of, resolve, step_at
from relight.history.verify import verify
from relight.journal.chain import step_digest
from relight.journal.queues.small_records import RecordKind
from relight.ports.store import Query, Record, Store
from relight.sessions.context import Context
from relight.sessions.opening import evidence_of
from relight.values.session import GENESIS, Head, Identity
from relight.values.snapshot import Snapshot
from relight.values.status import LIVE
from relight.values.step import Step

_SWEPT_TRIES: Final = 4
_SETTINGS: Final[tuple[RecordKind, ...]] = ("queue", "policy")
"""records that belong to the store itself: limits of queues, retention"""
_MAX_DEPENDENTS: Final = 10_000

Progress = Callable[[str, int, int], object]
"""called with the activity, the number of sessions done, and of all"""


class NotCopied(msgspec.Struct, frozen=True, kw_only=True):
    """A session that is not in the destination as it is in the source, and why."""

    session: str
    name: str | None
    why: str


class Copied(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a copy."""

    destination: str
    copied: int
    """sessions that were written"""
    present: int
    """sessions that were there already, as they are in the source"""
    steps: int
    """steps that were written"""
    verified: int
    """sessions of the destination whose every digest was checked after all were written"""
    running: list[str] = []
    """sessions that run, copied up to their head: copy again once they have ended"""
    refused: list[NotCopied] = []

    @property
    def ok(self) -> bool:
        """Whether everything that was asked for is in the destination."""
        return not self.refused


def copy_sessions(
    source: Context, destination: Context, refs: Sequence[str] = (), *, progress: Progress | None = None
) -> Copied:
    """Copy sessions with what they depend on, or all sessions with the store's settings."""
    return _Copy(source, destination, progress).run(refs)


class _Copy:
    def __init__(self, source: Context, destination: Context, progress: Progress | None) -> None:
        if source.store.url == destination.store.url:
            raise UsageError("source and destination are the same store")
        self._source, self._destination, self._progress = source, destination, progress
        self._present, self._steps = 0, 0
        self._ordered: list[str] = []
        self._copied: list[str] = []
        self._running: list[str] = []
        self._refused: dict[str, NotCopied] = {}

    def run(self, refs: Sequence[str]) -> Copied:
        wanted = [resolve(self._source.store, ref).identity for ref in refs] or [
            record.identity for record in every_session(self._source.store, Query())
        ]
        if not refs:
            self._copy_settings()
        self._ordered = _in_order(self._source.store, wanted)
        for number, session in enumerate(self._ordered):  # it grows by what is removed in the destination meanwhile
            self._tell("copying", number, len(self._ordered))
            self._copy(session)
        verified = self._verify()
        return Copied(
            destination=self._destination.store.info.location,
            copied=len(self._copied),
            present=self._present,
            steps=self._steps,
            verified=verified,
            running=self._running,
            refused=list(self._refused.values()),
        )

    def _tell(self, what: str, number: int, total: int) -> None:
        if self._progress is not None:
            self._progress(what, number, total)

    def _copy_settings(self) -> None:
        for kind in _SETTINGS:
            there = self._destination.store.list_records(kind)
            for name, record in self._source.store.list_records(kind).items():
                if name not in there:
                    self._destination.store.put_record(kind, name, record)

    # -- one session --------------------------------------------------------------------------------------------

    def _copy(self, session: str) -> None:
        record = self._source.store.find(session)
        if record is None:
            return  # it was removed meanwhile
        try:
            self._copy_record(record)
        except RelightError as error:
            identity = record.identity
            self._refused[session] = NotCopied(session=session, name=identity.name, why=error.message)

    def _copy_record(self, record: Record) -> None:
        identity, head = record.identity, record.head
        if head is None:
            raise Corrupt("its head cannot be read", session=identity.id)
        if head.status in LIVE and head.lease is not None and not evidence_of(self._source, head).owner_gone:
            self._running.append(identity.name or identity.id)
        there = self._destination.store.find(identity.id)
        copy = there.head if there is not None else None
        if copy is not None and (copy.seq, copy.digest) == (head.seq, head.digest):
            self._present += 1
            return
        missing = [self._refused[one] for one in _needed_by(identity) if one in self._refused]
        if missing:
            raise Conflict(f"{missing[0].name or missing[0].session}, which it depends on, was not copied")
        if there is not None:
            self._remove_beginning(there.identity)
        # Files that no step names yet may be swept in between: then they are copied again.
        for left in range(_SWEPT_TRIES, 0, -1):
            try:
                self._write(identity, head)
                break
            except SnapshotSwept:
                if left == 1:
                    raise
        self._copied.append(identity.id)
        self._steps += head.seq - (identity.parent.seq if identity.parent is not None else 0)

    def _remove_beginning(self, identity: Identity) -> None:
        """Remove a session of the destination that is only the beginning of the source's, together with the sessions
        there that depend on it: they are copies too, and are written again, named or not."""
        going = self._dependents(identity)
        self._destination.store.delete([one.id for one in going])
        removed = {one.id for one in going}
        self._copied = [one for one in self._copied if one not in removed]
        again = _in_order(self._source.store, going)
        known = set(self._ordered)
        self._ordered += [one for one in again if one in removed - known]

    def _dependents(self, identity: Identity) -> list[Identity]:
        """A session of the destination with all that need it, each of them only a part of what the source has."""
        found = [identity]
        for one in found:
            there, here = self._destination.store.find(one.id), self._source.store.find(one.id)
            if there is None or there.head is None or here is None or not self._is_beginning(there.head, here):
                title = one.name or one.id[:8]
                raise Conflict(f"{title} was continued in the destination, or differs there; it is kept as it is there")
            for query in (Query(parent=one.id), Query(spawned_by=one.id)):
                found += [other.identity for other in every_session(self._destination.store, query)]
            if len(found) > _MAX_DEPENDENTS:
                raise Conflict(f"{identity.id}: more than {_MAX_DEPENDENTS:,} sessions depend on it")
        return found

    def _is_beginning(self, head: Head, whole: Record) -> bool:
        """Whether a head of the destination is a step of the same session in the source."""
        parent = whole.identity.parent
        if head.lease is not None:
            return False
        if head.seq == (parent.seq if parent is not None else 0):
            return True
        steps = self._source.store.steps(whole.identity.id, after=head.seq - 1, upto=head.seq)
        return any(step.digest == head.digest for step in steps)

    def _write(self, identity: Identity, head: Head) -> None:
        store = self._source.store
        rows = [row for row in store.checkpoints(identity.id, upto=head.seq) if row.seq <= head.seq]
        taken = self._copy_files(identity, {row.seq: row.snapshots for row in rows if row.snapshots})
        labels = [(row.seq, row.label) for row in rows if row.label is not None]
        newest = {store.find_label(identity.id, label, upto=head.seq) for _, label in labels}
        labels.sort(key=lambda one: (one[0] in newest, one[0]))  # the newest use of a label last: it wins
        held = {row.seq: [taken[root, one] for root, one in row.snapshots.items()] for row in rows if row.snapshots}
        steps = ((step, held.get(step.seq, [])) for step in self._checked_steps(identity, head))
        record = Record(identity=identity, head=msgspec.structs.replace(head, lease=None))
        self._destination.store.import_sessions([record], steps, [(identity.id, *one) for one in labels])

    def _checked_steps(self, identity: Identity, head: Head) -> Iterator[Step]:
        """The session's own steps up to this head, each checked by its digest. An error rolls the copy back."""
        store, parent = self._source.store, identity.parent
        seq, digest = 0, GENESIS
        if parent is not None and parent.seq:
            seq = parent.seq
            digest = step_at(store, chain_of(store, identity)[1:], seq).digest
        for step in store.steps(identity.id, after=seq, upto=head.seq):
            if step.seq != seq + 1 or step_digest(digest, step) != step.digest:
                raise Corrupt("the step is missing or fails its digest", session=identity.id, seq=seq + 1)
            seq, digest = step.seq, step.digest
            yield step
        if (seq, digest) != (head.seq, head.digest) and seq:
            raise Corrupt("its last step is not the one its head names", session=identity.id, seq=seq)

    def _copy_files(self, identity: Identity, named: dict[int, dict[str, str]]) -> dict[tuple[str, str], Snapshot]:
        """(root, id) to the snapshot in the destination, its content durable there."""
        taken: dict[tuple[str, str], Snapshot] = {}
        for root in sorted({root for snapshots in named.values() for root in snapshots}):
            ids = list(dict.fromkeys(snapshots[root] for snapshots in named.values() if root in snapshots))
            pool = identity.pools.get(root) or self._source.workspaces().pool_of(identity.workspace[root])
            objects = self._source.workspaces().objects(pool, ids)
            made = self._destination.workspaces().take_in(pool, objects, ids)
            taken |= {(root, one): msgspec.structs.replace(made[one], root=root) for one in ids}
        return taken

    # -- the end ------------------------------------------------------------------------------------------------

    def _verify(self) -> int:
        """Read back every session that was written, and check each digest."""
        good = 0
        for number, session in enumerate(self._copied):
            self._tell("verifying", number, len(self._copied))
            found = resolve(self._destination.store, session)
            report = verify(self._destination, Found(identity=found.identity, head=found.head, seq=None))
            if report.ok:
                good += 1
            else:
                why = f"the copy is damaged: {report.problems[0].what}"
                self._refused[session] = NotCopied(session=session, name=found.identity.name, why=why)
        return good


def _needed_by(identity: Identity) -> list[str]:
    """The sessions that must be there before this one."""
    parent = [identity.parent.session] if identity.parent is not None else []
    return parent + ([identity.spawned_by] if identity.spawned_by is not None else [])


def _in_order(store: Store, wanted: Sequence[Identity]) -> list[str]:
    """The ids of these sessions and of all they depend on, each after what it depends on."""
    known = {one.id: one for one in wanted}
    ordered: dict[str, None] = {}
    seen: set[str] = set()
    stack = [(one.id, False) for one in wanted]  # newest first, so that the oldest is taken first
    while stack:
        session, is_ready = stack.pop()
        if is_ready:
            ordered[session] = None
        elif session not in seen:
            seen.add(session)
            if session not in known and (record := store.find(session)) is not None:
                known[session] = record.identity
            if session in known:  # else it was removed, and what depended on it does without
                stack.append((session, True))
                stack += [(one, False) for one in _needed_by(known[session])]
    return list(ordered)
