"""The store: where journals are stored. Guarantees of every store, checked by `relight.testing`:

1. `commit` is one transaction: it reads the head, calls `plan_commit`, writes step and head, and then acknowledges.
   When it raises, nothing was written; but `StoreUnavailable` may mean that the outcome is unknown, and then
   `find_commit` resolves it by the writer's own key. A snapshot whose segments have lost their rows is refused
   (SnapshotSwept) inside the same transaction, so that a paused writer cannot commit what was swept.
2. Steps of a session are numbered without gaps; (session, seq) is never reused, not even after a deletion.
3. Reading changes nothing.
4. After `delete` no byte of the session is left, including in logs.
5. A session with a queue position has a queue row exactly while it is queued: the row is written in the same
   transaction as the head (`journal/queues/order.py`). A claim that needs a slot of its queue takes it in its own
   transaction (`journal/queues/slots.py`), or is refused with QueueFull, and nothing is written.

A store decides nothing: what may be written is decided by journal/, which owner may write by the lease in the head.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from relight.journal.queues.order import QueueRow
from relight.journal.queues.small_records import RecordKind
from relight.values.lease import Instant
from relight.values.queues import QueueKey
from relight.values.session import Head, Identity
from relight.values.snapshot import Snapshot
from relight.values.status import Status
from relight.values.step import Committed, Draft, Step, StepKind
from relight.values.store import StoreInfo
from relight.values.tombstone import Tombstone


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """A session as stored. `head` is None if its checksum does not match: the session is corrupt."""

    identity: Identity
    head: Head | None


Place = tuple[int | float | str, str]
"""position in an order: the value that is compared, and the session's id"""


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """Which sessions to list, newest first, in pages."""

    agent: str | None = None
    provider: str | None = None
    statuses: frozenset[Status] | None = None
    """stored statuses: a session whose owner died is still `working` here"""
    key: str | None = None
    labels: dict[str, str] = {}
    text: str | None = None
    """a substring of name, key, task, id or labels"""
    created_since_us: int | None = None
    parent: str | None = None
    """forks of this session"""
    spawned_by: str | None = None
    """children of this session"""
    before: tuple[int, str] | None = None
    """cursor: (created_us, id) of the last one seen"""
    limit: int = 100


class CheckpointRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A step without its body, with the newest label given to it."""

    seq: int
    kind: StepKind
    at_us: int
    base: int
    label: str | None
    turns: int
    message_count: int
    snapshots: dict[str, str]
    """root name to snapshot id, for those taken with this step"""
    size_bytes: int


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a session that a decision was based on."""

    seq: int
    forks: frozenset[str]
    """ids of the sessions that read part of their history from it"""


class Damage(msgspec.Struct, frozen=True, kw_only=True):
    """Damage that the store's own integrity check found; digest chains are checked by `history.verify`."""

    what: str


class Store(Protocol):
    """The journals of many sessions. Thread-safe; the stores on disk or on a server also across processes."""

    @property
    def url(self) -> str:
        """The address that opens it again; may contain a password."""
        ...

    @property
    def info(self) -> StoreInfo:
        """What it is, where, how durable, and what it can do; read at each use, because a server may change."""
        ...

    @property
    def blobs(self) -> Path | None:
        """The directory beside it for workspace content; None if it is not on this machine's disk."""
        ...

    def create(self, identity: Identity, head: Head) -> None:
        """Begin a session. Conflict if the id exists or another session has the name (an archived one must have given
        it up by `update`, see sessions/names.py)."""
        ...

    def update(self, session: str, change: Callable[[Identity], Identity]) -> Identity:
        """Change a session's identity record (name, labels, policy); returns it as it is now. `change` is given the
        stored one within the transaction, so that no concurrent change is undone; it may be called more than once.
        NotFound, or Conflict if the name is taken."""
        ...

    def find(self, session: str) -> Record | None:
        """The session with this full id."""
        ...

    def find_named(self, name: str) -> Record | None:
        """The session that has exactly this name."""
        ...

    def find_prefixed(self, prefix: str, limit: int) -> list[Record]:
        """At most `limit` sessions whose ids begin so."""
        ...

    def list_sessions(self, query: Query) -> list[Record]:
        """A page of sessions, newest created first."""
        ...

    def count_sessions(self) -> dict[Status, int]:
        """The number of sessions by stored status."""
        ...

    def commit(self, session: str, draft: Draft) -> Committed:
        """Commit one durable step, or raise and write nothing. NotFound if the session is gone."""
        ...

    def find_commit(self, session: str, key: bytes, *, after: int) -> Committed | None:
        """The step that a writer committed under its own key after seq `after`; None if it did not."""
        ...

    def renew(self, session: str, *, owner: str, epoch: int) -> None:
        """Heartbeat: extend the lease. LeaseLost if another epoch has begun."""
        ...

    def release(self, session: str, *, owner: str, epoch: int) -> None:
        """Release the lease without a step. LeaseLost if another epoch has begun."""
        ...

    def steps(self, session: str, *, after: int = 0, upto: int | None = None) -> Iterator[Step]:
        """The session's own steps with after < seq <= upto, in order. Missing rows are skipped without an error."""
        ...

    def checkpoints(self, session: str, *, after: int = 0, upto: int | None = None) -> list[CheckpointRow]:
        """The same steps as `steps`, without their bodies."""
        ...

    def add_segment(self, pool: str, segment: str) -> None:
        """Add a segment's row; durable on return. Its file does not exist yet."""
        ...

    def list_segments(self, pool: str) -> frozenset[str]:
        """The segments of a pool that have a row."""
        ...

    def remove_segments(self, pool: str, segments: Iterable[str]) -> None:
        """Remove rows; durable on return. From then on no step that relies on one of them can be committed."""
        ...

    def list_snapshots(self, pool: str, *, without: Sequence[str] = ()) -> frozenset[str]:
        """The snapshots in this pool that a step refers to, not counting steps of the sessions in `without`."""
        ...

    def list_pools(self) -> frozenset[str]:
        """All pools with a segment or a snapshot."""
        ...

    def drop_snapshots(
        self, session: str, seq: int, *, roots: Collection[str] | None = None, seen: Seen | None = None
    ) -> int:
        """Remove a checkpoint's snapshots, of all roots or of these; how many there were. The step stays.

        Conflict if the session is not as `seen` any more, checked in the same transaction: a step or a fork that was
        made meanwhile may need them.
        """
        ...

    def label(self, session: str, seq: int, label: str, at_us: int) -> None:
        """Label a checkpoint. A label given again refers to its newest checkpoint."""
        ...

    def unlabel(self, session: str, seq: int) -> int:
        """Remove a checkpoint's labels; how many there were."""
        ...

    def find_label(self, session: str, label: str, *, upto: int | None = None) -> int | None:
        """The seq the label was last given to, among those up to `upto`."""
        ...

    def import_sessions(
        self,
        records: Sequence[Record],
        steps: Iterable[tuple[Step, Sequence[Snapshot]]],
        labels: Iterable[tuple[str, int, str]],
    ) -> None:
        """Insert whole sessions unchanged, parents before forks, in one transaction: all of them, or none.

        The steps come ordered by session and seq, already checked; labels as (session, seq, label), oldest first.
        Conflict if an id exists or a name is taken, SnapshotSwept as with `commit`; an error of `steps` rolls back.
        """
        ...

    def rebuild_head(self, head: Head, *, instead_of: bytes | None = None) -> None:
        """Replace a head whose checksum does not match, or the one with the digest `instead_of`, which is older than
        the journal. Conflict if the present one is neither."""
        ...

    def delete(self, sessions: Sequence[str], *, epochs: Mapping[str, int] | None = None) -> None:
        """Delete sessions with all their data. Conflict if a fork or a child outside the list refers to one, or if one
        is gone or has another epoch than the one given: it was claimed or removed since."""
        ...

    def list_queue_keys(self) -> list[QueueKey]:
        """The queues with at least one session, due or not, sorted. The cost depends on the queues, not on sessions."""
        ...

    def list_waiting(self, line: QueueKey, limit: int) -> list[QueueRow]:
        """The first sessions of a queue that are due, by rank. Wake times are compared with the server's own clock, if
        there is a server. The cost depends on `limit`, not on the length of the queue."""
        ...

    def put_record(self, kind: RecordKind, name: str, record: bytes | None) -> None:
        """Write or replace a small record, or delete it (None); durable on return."""
        ...

    def exchange_record(self, kind: RecordKind, name: str, before: bytes | None, record: bytes) -> bool:
        """Compare and set: write a record if the present one is `before` (None: absent), in one transaction. False if
        it is not; of several concurrent exchanges of the same record one succeeds."""
        ...

    def list_records(self, kind: RecordKind) -> dict[str, bytes]:
        """All small records of a kind, by name."""
        ...

    def instant(self) -> Instant:
        """The present time on the clock of this store's leases; a server's own clock, if there is a server."""
        ...

    def size_bytes(self) -> int:
        """Its size on disk or in memory."""
        ...

    def check(self) -> list[Damage]:
        """The store's own integrity check: complete, and slow."""
        ...

    def changed(self) -> object:
        """A token that differs after any commit; a cheap hint for tailing."""
        ...

    def close(self) -> None:
        """Release connections, files and threads. Idempotent."""
        ...


class OrderedStore(Protocol):
    """What a store has that lists in other orders without reading every session (`StoreInfo.ordered`)."""

    def list_ordered(self, query: Query, order: str, before: Place | None) -> list[Record]:
        """The first `query.limit` sessions of an order behind a place in it, and perhaps others, in any order. Orders
        and what they compare are those of `history/listing.py`."""
        ...


class ExpiringStore(Protocol):
    """What a store has that deletes finished sessions by itself (`StoreInfo.expires`)."""

    def expire_after(self, days: float | None) -> None:
        """Delete finished sessions so many days after their end; None: never."""
        ...

    def expired(self, session: str) -> Tombstone | None:
        """The tombstone of a session that the store deleted by itself."""
        ...


class SharingStore(Store, Protocol):
    """What a store may have, where the steps of several sessions cost less together."""

    def commit_all(self, steps: Sequence[tuple[str, Draft]]) -> Sequence[Committed | BaseException]:
        """Commit a step of each of these sessions: for each what `commit` would return, or the error it would raise."""
        ...


class SelfCopyingStore(Protocol):
    """What a store has that can be copied as a whole (`StoreInfo.copies_itself`)."""

    def copy_to(self, path: Path, progress: Callable[[int, int], object]) -> None:
        """Write all of it, as it is at one moment, to a new SQLite file; durable on return. Writers are not blocked.
        `progress` gets the number of pages done, and of all pages."""
        ...
