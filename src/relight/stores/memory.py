"""The in-memory store: the reference implementation. Not durable, complete in every other way.

If another store and this one differ, one of them is wrong. Records are stored sealed and steps as immutable values, so
that a reader can never change what a writer wrote.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from relight.errors import Conflict, Corrupt, NotFound, SnapshotSwept
from relight.journal.chain import seal, unseal_head, unseal_identity
from relight.journal.codec import Undecodable
from relight.journal.commit import plan_commit, plan_release, plan_renewal
from relight.journal.queues.order import QueueRow, first_rows, queue_row_of
from relight.journal.queues.slots import plan_slot, slot_wanted
from relight.journal.queues.small_records import RecordKind
from relight.ports import faults
from relight.ports.clock import Clock
from relight.ports.store import CheckpointRow, Damage, Query, Record, Seen
from relight.stores.query_filter import matches
from relight.system.fork_handlers import reset_after_fork
from relight.text.safe import safe_address
from relight.values.lease import Instant
from relight.values.queues import QueueKey
from relight.values.session import Head, Identity
from relight.values.snapshot import Snapshot
from relight.values.status import Status
from relight.values.step import Committed, Draft, Step
from relight.values.store import StoreInfo


class MemoryStore:
    """One dictionary per table, one lock around them all."""

    blobs: Path | None = None

    def __init__(self, clock: Clock) -> None:
        self.url = "memory:"
        self._clock = clock
        self._lock = threading.RLock()
        self._identities: dict[str, bytes] = {}
        self._heads: dict[str, bytes] = {}
        self._steps: dict[str, list[Step]] = {}
        self._labels: dict[str, list[tuple[int, str, int]]] = {}
        self._snapshots: dict[str, dict[int, tuple[Snapshot, ...]]] = {}
        self._segments: dict[str, set[str]] = {}
        self._stored_records: dict[tuple[str, str], bytes] = {}
        self._commits = 0
        reset_after_fork(self)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {safe_address(self.url)}>"

    @property
    def info(self) -> StoreInfo:
        return StoreInfo(kind="memory", location=safe_address(self.url), durability="none")

    def after_fork(self) -> None:
        """In a forked child: the lock may be held by a thread of the parent."""
        self._lock = threading.RLock()

    # -- sessions ---------------------------------------------------------------------------------------------

    def create(self, identity: Identity, head: Head) -> None:
        with self._lock:
            if identity.id in self._identities:
                raise Conflict(f"{identity.id}: the session exists")
            self._check_name_free(identity)
            self._identities[identity.id] = seal(identity)
            self._heads[identity.id] = seal(head)
            self._steps[identity.id] = []
            self._labels[identity.id] = []
            self._commits += 1

    def update(self, session: str, change: Callable[[Identity], Identity]) -> Identity:
        with self._lock:
            self._require_head(session)
            identity = change(unseal_identity(self._identities[session]))
            self._check_name_free(identity)
            self._identities[session] = seal(identity)
            self._commits += 1
            return identity

    def _check_name_free(self, identity: Identity) -> None:
        holder = self.find_named(identity.name) if identity.name is not None else None
        if holder is not None and holder.identity.id != identity.id:
            raise Conflict(f"{identity.name}: the name is taken by {holder.identity.id}")

    def find(self, session: str) -> Record | None:
        with self._lock:
            if session not in self._identities:
                return None
            return Record(identity=unseal_identity(self._identities[session]), head=_head(self._heads[session]))

    def find_named(self, name: str) -> Record | None:
        return next((record for record in self._records() if record.identity.name == name), None)

    def find_prefixed(self, prefix: str, limit: int) -> list[Record]:
        with self._lock:
            ids = sorted(session for session in self._identities if session.startswith(prefix))[:limit]
            return [record for record in map(self.find, ids) if record is not None]

    def list_sessions(self, query: Query) -> list[Record]:
        fitting = [record for record in self._records() if _fits(record, query)]
        fitting.sort(key=_sort_key, reverse=True)
        return fitting[: query.limit]

    def count_sessions(self) -> dict[Status, int]:
        counts: dict[Status, int] = {}
        for record in self._records():
            if record.head is not None:
                counts[record.head.status] = counts.get(record.head.status, 0) + 1
        return counts

    def _records(self) -> list[Record]:
        with self._lock:
            return [record for record in map(self.find, list(self._identities)) if record is not None]

    def _require_head(self, session: str) -> Head:
        if session not in self._heads:
            raise NotFound(session)
        head = _head(self._heads[session])
        if head is None:
            raise Corrupt("its head fails its seal", session=session)
        return head

    # -- the journal ------------------------------------------------------------------------------------------

    def commit_all(self, steps: Sequence[tuple[str, Draft]]) -> list[Committed | BaseException]:
        """For each what `commit` would return, or the error it would raise."""
        return [self._answer(session, draft) for session, draft in steps]

    def _answer(self, session: str, draft: Draft) -> Committed | BaseException:
        try:
            return self.commit(session, draft)
        except BaseException as error:
            return error

    def commit(self, session: str, draft: Draft) -> Committed:
        faults.point("commit.enter")
        with self._lock:
            head = self._require_head(session)
            faults.point("commit.begun")
            committed = plan_commit(head, draft, at_us=self._clock.now_us(), now=self.instant())
            self._check_segments(session, draft.snapshots)
            slots = self._planned_slots(head, draft)
            faults.point("commit.written")
            self._write(session, head, committed, draft, slots)
        faults.point("commit.committed")
        return committed

    def _write(
        self, session: str, head: Head, committed: Committed, draft: Draft, slots: tuple[str, bytes] | None
    ) -> None:
        """Write a planned step, all or nothing even if a signal handler raises in the middle."""
        step, sealed = committed.step, seal(committed.head)
        own, labels, kept = self._steps[session], self._labels[session], dict(self._stored_records) if slots else None
        del own[len(own) - sum(1 for one in own[-1:] if one.seq > head.seq) :]  # of a writer interrupted twice
        counts = len(own), len(labels)
        try:
            own.append(step)
            if draft.label is not None:
                labels.append((step.seq, draft.label, step.at_us))
            if draft.snapshots:
                self._snapshots.setdefault(session, {})[step.seq] = draft.snapshots
            if slots is not None:
                self._stored_records["slots", slots[0]] = slots[1]
            self._commits += 1
            # The head comes last: until it is replaced, nothing is committed and everything can be taken back.
            self._heads[session] = sealed
        except BaseException:
            if self._heads[session] is not sealed:
                del own[counts[0] :], labels[counts[1] :]
                self._snapshots.get(session, {}).pop(step.seq, None)
                if kept is not None:
                    self._stored_records = kept
            raise

    def find_commit(self, session: str, key: bytes, *, after: int) -> Committed | None:
        with self._lock:
            head = self._require_head(session)
            found = [step for step in self.steps(session, after=after, upto=head.seq) if step.key == key]
            return Committed(step=found[0], head=head) if found else None

    def renew(self, session: str, *, owner: str, epoch: int) -> None:
        with self._lock:
            head = plan_renewal(self._require_head(session), owner=owner, epoch=epoch, now=self.instant())
            self._heads[session] = seal(head)

    def release(self, session: str, *, owner: str, epoch: int) -> None:
        with self._lock:
            self._heads[session] = seal(plan_release(self._require_head(session), owner=owner, epoch=epoch))
            self._commits += 1

    def steps(self, session: str, *, after: int = 0, upto: int | None = None) -> Iterator[Step]:
        with self._lock:
            own = list(self._steps.get(session, ()))
        return (step for step in own if step.seq > after and (upto is None or step.seq <= upto))

    def checkpoints(self, session: str, *, after: int = 0, upto: int | None = None) -> list[CheckpointRow]:
        with self._lock:
            labels = {seq: label for seq, label, _ in self._labels.get(session, ())}
            taken = self._snapshots.get(session, {})
            return [
                _row(step, labels.get(step.seq), taken.get(step.seq, ()))
                for step in self.steps(session, after=after, upto=upto)
            ]

    def import_sessions(
        self,
        records: Sequence[Record],
        steps: Iterable[tuple[Step, Sequence[Snapshot]]],
        labels: Iterable[tuple[str, int, str]],
    ) -> None:
        taken = [(step, tuple(snapshots)) for step, snapshots in steps]
        with self._lock:
            for record in records:
                if record.identity.id in self._identities:
                    raise Conflict(f"{record.identity.id}: the session exists")
                self._check_name_free(record.identity)
            for step, snapshots in taken:
                self._check_segments(step.session, snapshots)
            for record in records:
                assert record.head is not None
                self.create(record.identity, record.head)
            for step, snapshots in taken:
                self._steps[step.session].append(step)
                if snapshots:
                    self._snapshots.setdefault(step.session, {})[step.seq] = snapshots
            for session, seq, label in labels:
                self._labels[session].append((seq, label, 0))
            self._commits += 1

    # -- lines ------------------------------------------------------------------------------------------------

    def list_queue_keys(self) -> list[QueueKey]:
        return sorted({row.line for row in self._waiting()})

    def list_waiting(self, line: QueueKey, limit: int) -> list[QueueRow]:
        now_us = self._clock.now_us()
        rows = [row for row in self._waiting() if row.line == line]
        ready = first_rows((row for row in rows if row.wake_us is None), limit)
        woken = sorted((row.wake_us, row.session) for row in rows if row.wake_us is not None and row.wake_us <= now_us)
        chosen = {session for _, session in woken[:limit]}
        return first_rows([*ready, *(row for row in rows if row.session in chosen)], limit)

    def _waiting(self) -> list[QueueRow]:
        rows = (queue_row_of(record.head) for record in self._records() if record.head is not None)
        return [row for row in rows if row is not None]

    def _planned_slots(self, head: Head, draft: Draft) -> tuple[str, bytes] | None:
        queue = slot_wanted(head, draft)
        if queue is None:
            return None
        record = plan_slot(
            self._stored_records.get(("queue", queue)),
            lambda: self._stored_records.get(("slots", queue)),
            lambda session: _head(self._heads.get(session, b"")),
            session=head.session,
            now=self.instant(),
        )
        return None if record is None else (queue, record)

    def put_record(self, kind: RecordKind, name: str, record: bytes | None) -> None:
        with self._lock:
            if record is None:
                self._stored_records.pop((kind, name), None)
            else:
                self._stored_records[kind, name] = record

    def exchange_record(self, kind: RecordKind, name: str, before: bytes | None, record: bytes) -> bool:
        with self._lock:
            if self._stored_records.get((kind, name)) != before:
                return False
            self._stored_records[kind, name] = record
            return True

    def list_records(self, kind: RecordKind) -> dict[str, bytes]:
        with self._lock:
            return {name: record for (known, name), record in sorted(self._stored_records.items()) if known == kind}

    # -- snapshots --------------------------------------------------------------------------------------------

    def _check_segments(self, session: str, snapshots: Sequence[Snapshot]) -> None:
        for snapshot in snapshots:
            if not self._segments.get(snapshot.pool, set()).issuperset(snapshot.segments):
                raise SnapshotSwept(session, snapshot.pool)

    def add_segment(self, pool: str, segment: str) -> None:
        with self._lock:
            self._segments.setdefault(pool, set()).add(segment)

    def list_segments(self, pool: str) -> frozenset[str]:
        with self._lock:
            return frozenset(self._segments.get(pool, ()))

    def remove_segments(self, pool: str, segments: Iterable[str]) -> None:
        with self._lock:
            self._segments.get(pool, set()).difference_update(segments)

    def list_snapshots(self, pool: str, *, without: Sequence[str] = ()) -> frozenset[str]:
        with self._lock:
            return frozenset(one.id for one in self._taken(without) if one.pool == pool)

    def list_pools(self) -> frozenset[str]:
        with self._lock:
            return frozenset(pool for pool, rows in self._segments.items() if rows) | {
                one.pool for one in self._taken()
            }

    def drop_snapshots(
        self, session: str, seq: int, *, roots: Collection[str] | None = None, seen: Seen | None = None
    ) -> int:
        with self._lock:
            head = self._require_head(session)
            if seen is not None and (head.seq, self._forks_of(session)) != (seen.seq, seen.forks):
                raise Conflict(f"{session}: it was written to or forked meanwhile")
            taken = self._snapshots.get(session, {})
            before = taken.pop(seq, ())
            kept = tuple(one for one in before if roots is not None and one.root not in roots)
            if kept:
                taken[seq] = kept
            return len(before) - len(kept)

    def _forks_of(self, session: str) -> frozenset[str]:
        parents = ((record.identity.id, record.identity.parent) for record in self._records())
        return frozenset(id_ for id_, parent in parents if parent is not None and parent.session == session)

    def _taken(self, without: Sequence[str] = ()) -> Iterator[Snapshot]:
        kept = (steps for session, steps in self._snapshots.items() if session not in without)
        return (one for steps in kept for snapshots in steps.values() for one in snapshots)

    # -- labels -----------------------------------------------------------------------------------------------

    def label(self, session: str, seq: int, label: str, at_us: int) -> None:
        with self._lock:
            self._require_head(session)
            self._labels[session].append((seq, label, at_us))
            self._commits += 1

    def unlabel(self, session: str, seq: int) -> int:
        with self._lock:
            self._require_head(session)
            kept = [entry for entry in self._labels[session] if entry[0] != seq]
            removed = len(self._labels[session]) - len(kept)
            self._labels[session] = kept
            return removed

    def find_label(self, session: str, label: str, *, upto: int | None = None) -> int | None:
        with self._lock:
            seqs = [seq for seq, given, _ in self._labels.get(session, ()) if given == label]
            seqs = [seq for seq in seqs if upto is None or seq <= upto]
            return seqs[-1] if seqs else None

    # -- the rest ---------------------------------------------------------------------------------------------

    def rebuild_head(self, head: Head, *, instead_of: bytes | None = None) -> None:
        with self._lock:
            record = self.find(head.session)
            if record is None:
                raise NotFound(head.session)
            if record.head is not None and record.head.digest != instead_of:
                raise Conflict(f"{head.session}: its head is whole and is not replaced")
            self._heads[head.session] = seal(head)

    def delete(self, sessions: Sequence[str], *, epochs: Mapping[str, int] | None = None) -> None:
        with self._lock:
            going = set(sessions)
            for session, epoch in (epochs or {}).items():
                if session not in self._heads or self._require_head(session).epoch != epoch:
                    raise Conflict(f"{session}: it was claimed or removed meanwhile")
            for identity in sorted((record.identity for record in self._records()), key=lambda one: one.id):
                origin = identity.parent.session if identity.parent is not None else None
                for what, needed in (("fork", origin), ("child", identity.spawned_by)):
                    if needed in going and identity.id not in going:
                        raise Conflict(f"{needed}: the {what} {identity.id} needs it")
            for session in going:
                for table in (self._identities, self._heads, self._steps, self._labels, self._snapshots):
                    table.pop(session, None)
            self._commits += 1

    def instant(self) -> Instant:
        return self._clock.instant()

    def size_bytes(self) -> int:
        with self._lock:
            return sum(len(step.body) for own in self._steps.values() for step in own)

    def check(self) -> list[Damage]:
        return []

    def changed(self) -> object:
        return self._commits

    def close(self) -> None:
        """Nothing to close."""


def _head(stored: bytes) -> Head | None:
    try:
        return unseal_head(stored)
    except Undecodable:
        return None


def _sort_key(record: Record) -> tuple[int, str]:
    return record.identity.created_us, record.identity.id


def _fits(record: Record, query: Query) -> bool:
    if query.created_since_us is not None and record.identity.created_us < query.created_since_us:
        return False
    if query.before is not None and _sort_key(record) >= query.before:
        return False
    return matches(record, query)


def _row(step: Step, label: str | None, taken: Sequence[Snapshot]) -> CheckpointRow:
    return CheckpointRow(
        seq=step.seq,
        kind=step.kind,
        at_us=step.at_us,
        base=step.base,
        label=label,
        turns=step.turns,
        message_count=step.message_count,
        snapshots={one.root: one.id for one in taken},
        size_bytes=len(step.body),
    )
