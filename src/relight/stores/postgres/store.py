"""`PostgresStore`: implements `ports.store.Store` on a PostgreSQL database.

Steps and heads go through `commits`, everything else through a transaction of its own; reading is one statement, or
several that fit together. Seq and digest are checked inside each transaction, so any number of processes on any number
of machines may use one database.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict

from relight.errors import UnknownStore
from relight.journal.queues.order import QueueRow
from relight.journal.queues.small_records import RecordKind
from relight.ports.clock import Clock
from relight.ports.schema import SchemaStatus
from relight.ports.search import StoredText, Words
from relight.ports.store import CheckpointRow, Damage, Query, Record, Seen
from relight.stores.postgres import health, listing, migrate, queues, reading, removal, search, sessions, snapshots
from relight.stores.postgres.commits import Journal
from relight.stores.postgres.connections import Connections
from relight.stores.postgres.rows import ROWS
from relight.stores.postgres.server_time import ServerTime
from relight.stores.postgres.statements import SQL
from relight.values.lease import Instant
from relight.values.queues import QueueKey
from relight.values.session import Head, Identity
from relight.values.snapshot import Snapshot
from relight.values.status import Status
from relight.values.step import Committed, Draft, Step
from relight.values.store import StoreInfo

KNOWN: Final = ("postgresql://user@host:5432/database",)


class _Changed(Exception):
    """Rolls back a transaction whose steps are not those that were read."""


class PostgresStore:
    """A store in the database at `url`. Thread-safe, and safe with any number of processes.

    `local` is this machine's directory for workspace content, in a folder named after the store's id; `blobs` is that
    folder itself. `instead` replaces the server's timeline, for tests.
    """

    def __init__(
        self,
        url: str,
        clock: Clock,
        *,
        local: Path | None = None,
        blobs: Path | None = None,
        instead: Callable[[], Instant] | None = None,
    ) -> None:
        opened = self._begin(url, clock, instead, create=True)
        assert opened is not None
        self._settle(opened, local, blobs)

    @classmethod
    def found(
        cls, url: str, clock: Clock, *, local: Path | None = None, blobs: Path | None = None
    ) -> PostgresStore | None:
        """The store at an address; None if there is none, and then none is created."""
        store = cls.__new__(cls)
        opened = store._begin(url, clock, None, create=False)
        if opened is None:
            store._connections.close()
            return None
        store._settle(opened, local, blobs)
        return store

    @classmethod
    def schema_status(cls, url: str) -> SchemaStatus:
        """The schema version at an address. Creates and changes nothing."""
        connections = Connections(checked(url))
        try:
            found = migrate.schema_version(connections)
        finally:
            connections.close()
        return SchemaStatus(part="store", place=connections.where, found=found, wanted=migrate.VERSION)

    def _begin(
        self, url: str, clock: Clock, instead: Callable[[], Instant] | None, *, create: bool
    ) -> migrate.Opened | None:
        self.url = checked(url)
        self._connections = Connections(url)
        self._time = ServerTime(clock, instead)
        self._journal = Journal(self._connections, self._time, clock)
        try:
            return migrate.open_schema(self._connections, create=create)
        except BaseException:
            self._connections.close()
            raise

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._connections.where}>"

    def _settle(self, opened: migrate.Opened, local: Path | None, blobs: Path | None) -> None:
        self.id = opened.id
        why, cure = opened.state.weakness
        self.info = StoreInfo(
            kind="postgres",
            location=self._connections.where,
            durability=opened.state.durability,
            durability_reason=why,
            durability_cures=(cure,) if cure else (),
            on_server=True,
            schema_version=opened.version,
            read_only=opened.state.read_only,
            indexed=True,
        )
        self.blobs = blobs or (local / f"pg-{opened.id[:8]}.blobs" if local is not None else None)
        self._time.begin(opened.id)

    @property
    def connections(self) -> Connections:
        """Its connection pool, for blobs in the same database."""
        return self._connections

    # -- sessions ---------------------------------------------------------------------------------------------

    def create(self, identity: Identity, head: Head) -> None:
        with self._connections.transaction(identity.id) as cursor:
            sessions.create(cursor, identity, head)

    def update(self, session: str, change: Callable[[Identity], Identity]) -> Identity:
        with self._connections.transaction(session) as cursor:
            return sessions.update(cursor, session, change)

    def find(self, session: str) -> Record | None:
        with self._connections.reading(session) as cursor:
            return sessions.find(cursor, session)

    def find_named(self, name: str) -> Record | None:
        with self._connections.reading() as cursor:
            return sessions.find_named(cursor, name)

    def find_prefixed(self, prefix: str, limit: int) -> list[Record]:
        with self._connections.reading() as cursor:
            return sessions.find_prefixed(cursor, prefix, limit)

    def list_sessions(self, query: Query) -> list[Record]:
        with self._connections.reading() as cursor:
            return [ROWS.listed_record(row) for row in listing.page(cursor, query)]

    def count_sessions(self) -> dict[Status, int]:
        with self._connections.reading() as cursor:
            return listing.counts(cursor)

    # -- the journal ------------------------------------------------------------------------------------------

    def commit(self, session: str, draft: Draft) -> Committed:
        return self._journal.commit(session, draft)

    def find_commit(self, session: str, key: bytes, *, after: int) -> Committed | None:
        return self._journal.find_commit(session, key, after)

    def renew(self, session: str, *, owner: str, epoch: int) -> None:
        self._journal.renew(session, owner, epoch)

    def release(self, session: str, *, owner: str, epoch: int) -> None:
        self._journal.release(session, owner, epoch)

    def steps(self, session: str, *, after: int = 0, upto: int | None = None) -> Iterator[Step]:
        return reading.steps(self._connections, session, after, upto)

    def checkpoints(self, session: str, *, after: int = 0, upto: int | None = None) -> list[CheckpointRow]:
        with self._connections.reading(session) as cursor:
            return reading.checkpoints(cursor, session, after, upto)

    # -- lines ------------------------------------------------------------------------------------------------

    def list_queue_keys(self) -> list[QueueKey]:
        with self._connections.reading() as cursor:
            return queues.list_queues(cursor)

    def list_waiting(self, line: QueueKey, limit: int) -> list[QueueRow]:
        with self._connections.reading() as cursor:
            return queues.list_first(cursor, line, limit, self._time.wall_us())

    def put_record(self, kind: RecordKind, name: str, record: bytes | None) -> None:
        with self._connections.transaction() as cursor:
            queues.put_record(cursor, kind, name, record)

    def exchange_record(self, kind: RecordKind, name: str, before: bytes | None, record: bytes) -> bool:
        with self._connections.transaction() as cursor:
            if queues.lock_record(cursor, kind, name) != before:
                return False
            queues.put_record(cursor, kind, name, record)
            return True

    def list_records(self, kind: RecordKind) -> dict[str, bytes]:
        with self._connections.reading() as cursor:
            return queues.list_records(cursor, kind)

    # -- snapshots --------------------------------------------------------------------------------------------

    def add_segment(self, pool: str, segment: str) -> None:
        with self._connections.transaction() as cursor:
            snapshots.add_segment(cursor, pool, segment)

    def list_segments(self, pool: str) -> frozenset[str]:
        with self._connections.reading() as cursor:
            return snapshots.segments(cursor, pool)

    def remove_segments(self, pool: str, segments: Iterable[str]) -> None:
        with self._connections.transaction() as cursor:
            snapshots.remove_segments(cursor, pool, segments)

    def list_snapshots(self, pool: str, *, without: Sequence[str] = ()) -> frozenset[str]:
        with self._connections.reading() as cursor:
            return snapshots.of_pool(cursor, pool, without)

    def list_pools(self) -> frozenset[str]:
        with self._connections.reading() as cursor:
            return snapshots.pools(cursor)

    def drop_snapshots(
        self, session: str, seq: int, *, roots: Collection[str] | None = None, seen: Seen | None = None
    ) -> int:
        with self._connections.transaction(session) as cursor:
            if seen is not None:
                sessions.check_as_seen(cursor, session, seen)
            sid = sessions.lock_sid(cursor, session)
            return snapshots.drop(cursor, sid, seq, roots)

    # -- labels -----------------------------------------------------------------------------------------------

    def label(self, session: str, seq: int, label: str, at_us: int) -> None:
        with self._connections.transaction(session) as cursor:
            sessions.insert_label(cursor, sessions.lock_sid(cursor, session), seq, label)

    def unlabel(self, session: str, seq: int) -> int:
        with self._connections.transaction(session) as cursor:
            sid = sessions.lock_sid(cursor, session)
            return cursor.execute(SQL["delete_checkpoint_labels"], (sid, seq)).rowcount

    def find_label(self, session: str, label: str, *, upto: int | None = None) -> int | None:
        with self._connections.reading(session) as cursor:
            return reading.find_label(cursor, session, label, upto)

    # -- the index of words -----------------------------------------------------------------------------------

    def count_unindexed(self) -> int:
        with self._connections.reading() as cursor:
            return search.count_unindexed(cursor)

    def list_unindexed(self, limit: int, *, newest: bool = False) -> list[StoredText]:
        with self._connections.reading() as cursor:
            return search.list_unindexed(cursor, limit, newest=newest)

    def index_steps(self, steps: Sequence[Words]) -> bool:
        with suppress(_Changed), self._connections.transaction() as cursor:
            if not search.index_steps(cursor, steps):
                raise _Changed
            return True
        return False

    def newest_block(self) -> int:
        with self._connections.reading() as cursor:
            return search.newest_block(cursor)

    def find_words(self, first: str, last: str, blocks: Sequence[int]) -> list[tuple[int, bytes]]:
        with self._connections.reading() as cursor:
            return search.find_words(cursor, first, last, blocks)

    def list_jumps(self, session: str, *, after: int) -> list[tuple[int, int]]:
        with self._connections.reading(session) as cursor:
            return search.list_jumps(cursor, session, after)

    def read_places(self, places: Sequence[int]) -> list[StoredText]:
        with self._connections.reading() as cursor:
            return search.read_places(cursor, places)

    # -- the rest ---------------------------------------------------------------------------------------------

    def import_sessions(
        self,
        records: Sequence[Record],
        steps: Iterable[tuple[Step, Sequence[Snapshot]]],
        labels: Iterable[tuple[str, int, str]],
    ) -> None:
        with self._connections.transaction() as cursor:
            sessions.import_sessions(cursor, records, steps, labels)

    def rebuild_head(self, head: Head, *, instead_of: bytes | None = None) -> None:
        with self._connections.transaction(head.session) as cursor:
            sessions.rebuild(cursor, head, instead_of)
        self._journal.forget_session(head.session)

    def delete(self, sessions: Sequence[str], *, epochs: Mapping[str, int] | None = None) -> None:
        with self._connections.transaction() as cursor:
            removal.remove(cursor, sessions, epochs or {})
        for session in sessions:
            self._journal.forget_session(session)

    def instant(self) -> Instant:
        with self._connections.reading() as cursor:
            row = cursor.execute(SQL["server_time"]).fetchone()
        assert row is not None
        return self._time.observe(row[0])

    def size_bytes(self) -> int:
        with self._connections.reading() as cursor:
            row = cursor.execute(SQL["size_bytes"]).fetchone()
        return int(row[0]) if row is not None else 0

    def check(self) -> list[Damage]:
        with self._connections.transaction(begin=SQL["begin_snapshot"]) as cursor:
            return list(health.examine(cursor))

    def changed(self) -> object:
        """The server's transaction snapshot: differs once anything was committed on this server, by us or not."""
        with self._connections.reading() as cursor:
            return cursor.execute(SQL["snapshot_token"]).fetchone()

    def close(self) -> None:
        self._connections.close()


def checked(url: str) -> str:
    """The address; UnknownStore if it is not valid."""
    try:
        conninfo_to_dict(url)
    except ProgrammingError:
        raise UnknownStore(_without_password(url), known=KNOWN) from None
    return url


def _without_password(url: str) -> str:
    scheme, separator, rest = url.partition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}"
