"""The store: where the journal lives. What every store promises, and `relight.testing` proves.

1. `commit` is one transaction: it reads the head, asks `plan_commit`, writes step and head, and only then answers.
   When it raises, nothing was written; `StoreUnavailable` may mean that the outcome is unknown, and then
   `find_commit` resolves it by the writer's own key. A snapshot whose segments have lost their rows is refused
   (SnapshotSwept) inside the same transaction, so that a paused writer cannot commit what was swept.
2. Steps of a session are numbered without gap; (session, seq) is unique for ever, deleted sessions included.
3. Reading changes nothing.
4. After `delete` no byte of the session is left, in a log either.
5. A session with a place stands in its line exactly while it is queued: the row of the line is written in the same
   transaction as the head (`journal/queues/order.py`). A claim that wants a slot of its queue takes it in its
   transaction (`journal/queues/slots.py`), or is refused with QueueFull, and nothing is written.

A store decides nothing: what may be written is decided by journal/, who may write by the lease inside the head.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

import msgspec

from relight.journal.queues.order import QueueRow
from relight.journal.queues.small_records import RecordKind
from relight.values.lease import Instant
from relight.values.queues import QueueKey
from relight.values.session import Head, Identity
from relight.values.snapshot import Snapshot
from relight.values.status import Status
from relight.values.step import Committed, Draft, Step, StepKind


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """A session as stored. A head that fails its seal is None, and the session is corrupt."""

    identity: Identity
    head: Head | None


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """Which sessions to list: newest created first, by pages."""

    agent: str | None = None
    provider: str | None = None
    statuses: frozenset[Status] | None = None
    """stored statuses; a dead `working` is still `working` here"""
    key: str | None = None
    labels: dict[str, str] = {}
    text: str | None = None
    """somewhere in name, key, task, id, labels"""
    created_since_us: int | None = None
    parent: str | None = None
    """forks of this session"""
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
    """Where a session stood when something about it was decided."""

    seq: int
    forks: frozenset[str]
    """ids of the sessions that read part of their history from it"""


class Damage(msgspec.Struct, frozen=True, kw_only=True):
    """Something the store itself found broken; the chain is checked by the engine."""

    what: str


class Store(Protocol):
    """One journal of many sessions. Thread-safe; several processes may use the same one where it says so."""

    @property
    def url(self) -> str:
        """The address that opens it again."""
        ...

    @property
    def durability(self) -> str:
        """What an acknowledged step survives: power-loss, process-crash or none."""
        ...

    @property
    def blobs(self) -> Path | None:
        """The directory beside it for the content of workspaces; None where it has no place of its own."""
        ...

    def create(self, identity: Identity, head: Head) -> None:
        """Begin a session. Conflict where the id exists or another session has the name; an archived one gives it up
        before that, by `update` (sessions/names.py)."""
        ...

    def update(self, identity: Identity) -> None:
        """Replace what a session is (name given up, labels). NotFound, or Conflict where the name is taken."""
        ...

    def find(self, session: str) -> Record | None:
        """By full id."""
        ...

    def find_named(self, name: str) -> Record | None:
        """By exact name, among the sessions that hold one."""
        ...

    def find_prefixed(self, prefix: str, limit: int) -> list[Record]:
        """By the beginning of the id; at most `limit`."""
        ...

    def list_sessions(self, query: Query) -> list[Record]:
        """A page of sessions, newest created first."""
        ...

    def count_sessions(self) -> dict[Status, int]:
        """How many sessions there are, by stored status."""
        ...

    def commit(self, session: str, draft: Draft) -> Committed:
        """One durable step, or an error and nothing. NotFound where the session is gone."""
        ...

    def find_commit(self, session: str, key: bytes, *, after: int) -> Committed | None:
        """The step a writer committed under its own key after seq `after`, if it did."""
        ...

    def renew(self, session: str, *, owner: str, epoch: int) -> None:
        """Heartbeat. LeaseLost where the epoch has passed."""
        ...

    def release(self, session: str, *, owner: str, epoch: int) -> None:
        """Give the lease back without a step. LeaseLost where the epoch has passed."""
        ...

    def steps(self, session: str, *, after: int = 0, upto: int | None = None) -> Iterator[Step]:
        """Own steps with after < seq <= upto, in order. Rows that are missing are simply not there."""
        ...

    def checkpoints(self, session: str, *, after: int = 0, upto: int | None = None) -> list[CheckpointRow]:
        """The same steps without bodies."""
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
        """The snapshots in this pool that some step names, steps of the sessions in `without` not counted."""
        ...

    def list_pools(self) -> frozenset[str]:
        """All pools with a segment or a snapshot."""
        ...

    def drop_snapshots(
        self, session: str, seq: int, *, roots: Collection[str] | None = None, seen: Seen | None = None
    ) -> int:
        """Let a checkpoint's snapshots go, of all roots or of these; how many there were. The step stays.

        Conflict where the session is not as `seen` any more, checked in the same transaction: somebody committed a step
        or forked it meanwhile, and may need them.
        """
        ...

    def label(self, session: str, seq: int, label: str, at_us: int) -> None:
        """Name a checkpoint. The newest checkpoint a label was given to wins."""
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
        """Take whole sessions in as they are, parents before forks, in one transaction: all of it, or nothing.

        The steps come by session and seq, already checked; (session, seq, label) as the labels were given. Conflict
        where an id exists or a name is taken, SnapshotSwept as with `commit`; an error of `steps` undoes everything.
        """
        ...

    def rebuild_head(self, head: Head, *, instead_of: bytes | None = None) -> None:
        """Replace a head that failed its seal, or the one with the digest `instead_of`, which is older than the
        journal. Conflict where the present one is neither."""
        ...

    def delete(self, sessions: Sequence[str], *, epochs: Mapping[str, int] | None = None) -> None:
        """Remove sessions with everything that is theirs. Conflict where a fork outside the list needs one, or where
        one has another epoch than the one given for it, or none: somebody has claimed or removed it since."""
        ...

    def list_queue_keys(self) -> list[QueueKey]:
        """The lines in which somebody stands, due or not, sorted; the cost is that of the lines, not of who stands."""
        ...

    def list_waiting(self, line: QueueKey, limit: int) -> list[QueueRow]:
        """The first of a line whose time has come, by rank. A time to wake is compared with the server's own time
        where there is a server. The cost is that of `limit`, whoever else stands there."""
        ...

    def put_record(self, kind: RecordKind, name: str, record: bytes | None) -> None:
        """Write a small record in the place of the one before, or remove it; durable on return."""
        ...

    def exchange_record(self, kind: RecordKind, name: str, before: bytes | None, record: bytes) -> bool:
        """Write a small record where the present one is `before`, None for none, in one transaction; False, and nothing
        is written, where it is another. Of several that exchange the same one, one succeeds."""
        ...

    def list_records(self, kind: RecordKind) -> dict[str, bytes]:
        """All small records of a kind, by name."""
        ...

    def instant(self) -> Instant:
        """Now, on the timeline of this store's leases. A server's is its own wall time."""
        ...

    def size_bytes(self) -> int:
        """What it takes on disk or in memory."""
        ...

    def check(self) -> list[Damage]:
        """The store's own integrity check; slow, complete."""
        ...

    def changed(self) -> object:
        """A token that differs once something was committed; a cheap hint for tailing."""
        ...

    def close(self) -> None:
        """Give everything back. Idempotent."""
        ...


OPTIONAL: Final = {
    "place": "the address as it may be shown, without a password; a store on a server has one",
    "schema_version": "the number of the layout it keeps",
    "read_only": "it can be read now, and not written",
    "durability_reason": "why it survives no more than it does; empty where that is a power cut",
    "durability_cures": "commands that would make it survive more",
    "expire_after": "let finished sessions end so many days from now by themselves; where a store can",
    "lent": "connections that another part may use, where it keeps a table of its own beside ours",
}
"""What a store may offer beyond the port. Nobody asks a store for anything that is neither there nor here."""
