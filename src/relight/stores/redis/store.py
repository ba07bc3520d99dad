"""`RedisStore`: implements `ports.store.Store` on a Redis server.

Works with Redis 6.2 and later, without modules, on one server (or one with replicas); a Redis Cluster is refused.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final

from relight.errors import Corrupt, NewerStore, NotFound, StoreUnavailable
from relight.journal.commit import plan_release, plan_renewal
from relight.journal.queues.order import QueueRow
from relight.journal.queues.small_records import RecordKind
from relight.ports.clock import Clock
from relight.ports.schema import SchemaStatus
from relight.ports.store import CheckpointRow, Damage, Query, Record, Seen
from relight.stores.redis import rows
from relight.stores.redis.address import parse
from relight.stores.redis.commits import Journal
from relight.stores.redis.health import Health
from relight.stores.redis.importing import SessionImport
from relight.stores.redis.keys import Keys
from relight.stores.redis.listing import Listing
from relight.stores.redis.reading import Reading
from relight.stores.redis.removal import Removal
from relight.stores.redis.server import Command, Server, is_too_old
from relight.stores.redis.server_time import ServerTime
from relight.stores.redis.sessions import SCHEMA, Sessions
from relight.stores.redis.snapshots import Snapshots
from relight.values.lease import Instant
from relight.values.queues import QueueKey
from relight.values.session import Head, Identity
from relight.values.snapshot import Snapshot
from relight.values.status import Status
from relight.values.step import Committed, Draft, Step
from relight.values.store import StoreInfo
from relight.values.tombstone import Tombstone

_open: Final[weakref.WeakSet[RedisStore]] = weakref.WeakSet()


class RedisStore:
    """A store in the database at `url`. Thread-safe, and safe with any number of processes on any number of machines.

    `local` is this machine's directory for workspace content, in a folder named after the store; `blobs` is that folder
    itself. `tell` gets one line if the server's settings guarantee less than power-loss. `leases` replaces the
    server's clock, for tests.
    """

    def __init__(
        self,
        url: str,
        clock: Clock,
        *,
        local: Path | None = None,
        blobs: Path | None = None,
        leases: Clock | None = None,
        tell: Callable[[str], None] = lambda line: None,
    ) -> None:
        address = parse(url)
        self.url = address.url
        self.place = address.shown
        """the address as shown to users, without a password"""
        name = sha256(f"{address.shown} {address.prefix}".encode()).hexdigest()[:8]
        self.blobs = blobs or (local / f"redis-{name}.blobs" if local is not None else None)
        self._server = Server(address)
        self._keys = Keys(address.prefix)
        try:
            self._greet()
            durability = self._server.durability
            if address.demanded is not None and not durability.reaches(address.demanded):
                raise StoreUnavailable(
                    f"{self.place}: durability {address.demanded} is required, and this server has "
                    f"{durability.level}: {durability.why}",
                    hints=[f"redis-cli {cure}" for cure in durability.cures],
                )
            self._check_schema()
        except BaseException:
            self._server.close()
            raise
        if durability.level != "power-loss":
            tell(f"{self.place}: durability is {durability.level}: {durability.why}")
        self._time = ServerTime(self._server, clock, leases)
        self._reading = Reading(self._server, self._keys)
        self._journal = Journal(self._server, self._keys, self._time, clock, self._reading)
        self._sessions = Sessions(self._server, self._keys, self._journal)
        self._listing = Listing(self._server, self._keys)
        self._snapshots = Snapshots(self._server, self._keys)
        self._removal = Removal(self._server, self._keys, self._journal, self._sessions, self._snapshots, tell)
        _open.add(self)

    @classmethod
    def schema_status(cls, url: str, clock: Clock) -> SchemaStatus:
        """The schema version. Nothing has to be created: keys come with their content."""
        store = cls(url, clock)
        try:
            found = store._server.execute("GET", store._keys.schema)
        finally:
            store.close()
        return SchemaStatus(
            part="store", place=store.place, found=SCHEMA if found is None else int(found), wanted=SCHEMA
        )

    def _greet(self) -> None:
        self._server.execute("TIME")  # not PING, which a server that cannot save refuses although it can be read
        about = self._server.info("server")
        if is_too_old(about.get("redis_version", "")):
            raise StoreUnavailable(
                f"{self.place}: Redis {about['redis_version']} is too old: 6.2 or newer is required",
                hints=["use Redis 6.2 or later"],
            )
        if about.get("redis_mode") == "cluster":
            raise StoreUnavailable(
                f"{self.place}: a Redis Cluster cannot be a store, because one step writes to several keys at once",
                hints=["use one server, with replicas if need be", "or PostgreSQL: RELIGHT_STORE=postgresql://..."],
            )

    def _check_schema(self) -> None:
        stored = self._server.execute("GET", self._keys.schema)
        if stored is not None and not stored.isdigit():
            raise Corrupt(f"{self.place}: its schema version cannot be read")
        if stored is not None and int(stored) > SCHEMA:
            raise NewerStore(self.place, found=int(stored), known=SCHEMA)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.place}>"

    @property
    def info(self) -> StoreInfo:
        """By the server's present settings."""
        durability = self._server.durability
        return StoreInfo(
            kind="redis",
            location=self.place,
            durability=durability.level,
            durability_reason=durability.why,
            durability_cures=tuple(f"redis-cli {cure}" for cure in durability.cures),
            on_server=True,
            schema_version=SCHEMA,
            expires=True,
        )

    # -- sessions ---------------------------------------------------------------------------------------------

    def create(self, identity: Identity, head: Head) -> None:
        self._sessions.create(identity, head)

    def update(self, session: str, change: Callable[[Identity], Identity]) -> Identity:
        return self._sessions.update(session, change)

    def find(self, session: str) -> Record | None:
        return self._sessions.find(session)

    def find_named(self, name: str) -> Record | None:
        return self._sessions.find_named(name)

    def find_prefixed(self, prefix: str, limit: int) -> list[Record]:
        return self._sessions.find_prefixed(prefix, limit)

    def list_sessions(self, query: Query) -> list[Record]:
        return self._listing.page(query)

    def count_sessions(self) -> dict[Status, int]:
        return self._listing.counts()

    # -- the journal ------------------------------------------------------------------------------------------

    def commit(self, session: str, draft: Draft) -> Committed:
        return self._journal.commit(session, draft)

    def find_commit(self, session: str, key: bytes, *, after: int) -> Committed | None:
        return self._journal.find_commit(session, key, after)

    def renew(self, session: str, *, owner: str, epoch: int) -> None:
        self._journal.update_head(
            session, lambda head, now: plan_renewal(head, owner=owner, epoch=epoch, now=now), is_change=False
        )

    def release(self, session: str, *, owner: str, epoch: int) -> None:
        self._journal.update_head(
            session, lambda head, now: plan_release(head, owner=owner, epoch=epoch), is_change=True
        )

    def steps(self, session: str, *, after: int = 0, upto: int | None = None) -> Iterator[Step]:
        return self._reading.steps(session, after, upto)

    def checkpoints(self, session: str, *, after: int = 0, upto: int | None = None) -> list[CheckpointRow]:
        return self._reading.checkpoints(session, after, upto)

    # -- queues ------------------------------------------------------------------------------------------------

    def list_queue_keys(self) -> list[QueueKey]:
        return self._journal.queues.list_queues()

    def list_waiting(self, line: QueueKey, limit: int) -> list[QueueRow]:
        return self._journal.queues.list_first(line, limit, self._time.wall_us())

    def put_record(self, kind: RecordKind, name: str, record: bytes | None) -> None:
        self._journal.queues.put_record(kind, name, record)

    def exchange_record(self, kind: RecordKind, name: str, before: bytes | None, record: bytes) -> bool:
        return self._journal.queues.exchange_record(kind, name, before, record)

    def list_records(self, kind: RecordKind) -> dict[str, bytes]:
        return self._journal.queues.list_records(kind)

    # -- snapshots --------------------------------------------------------------------------------------------

    def add_segment(self, pool: str, segment: str) -> None:
        self._snapshots.add_segment(pool, segment)

    def list_segments(self, pool: str) -> frozenset[str]:
        return self._snapshots.segments(pool)

    def remove_segments(self, pool: str, segments: Iterable[str]) -> None:
        self._snapshots.remove_segments(pool, segments)

    def list_snapshots(self, pool: str, *, without: Sequence[str] = ()) -> frozenset[str]:
        return self._snapshots.of_pool(pool, without)

    def list_pools(self) -> frozenset[str]:
        return self._snapshots.pools()

    def drop_snapshots(
        self, session: str, seq: int, *, roots: Collection[str] | None = None, seen: Seen | None = None
    ) -> int:
        return self._snapshots.drop(session, seq, roots, seen)

    # -- labels -----------------------------------------------------------------------------------------------

    def label(self, session: str, seq: int, label: str, at_us: int) -> None:
        keys = self._keys.session(session)
        commands: list[Command] = [
            ("RPUSH", keys.labels, rows.label_row(session, seq, label)),
            ("INCR", self._keys.changes),
        ]
        at_ms = self._journal.expiry.deadline_ms(session)
        commands += [("PEXPIREAT", keys.labels, at_ms)] if at_ms is not None else []  # the key may be new
        if self._server.transact([("there", keys.head)], commands).failed:
            raise NotFound(session)

    def unlabel(self, session: str, seq: int) -> int:
        keys = self._keys.session(session)
        given = {
            row for row in self._server.execute("LRANGE", keys.labels, 0, -1) if rows.read_label(session, row)[0] == seq
        }
        commands: list[Command] = [("LREM", keys.labels, 0, row) for row in sorted(given)]
        reply = self._server.transact([("there", keys.head)], commands, results=True)
        if reply.failed:
            raise NotFound(session)
        return sum(reply.results)

    def find_label(self, session: str, label: str, *, upto: int | None = None) -> int | None:
        return self._reading.find_label(session, label, upto)

    # -- the rest ---------------------------------------------------------------------------------------------

    def import_sessions(
        self,
        records: Sequence[Record],
        steps: Iterable[tuple[Step, Sequence[Snapshot]]],
        labels: Iterable[tuple[str, int, str]],
    ) -> None:
        session_import = SessionImport(self._server, self._keys, self._journal, self._sessions)
        try:
            session_import.begin(records)
            for step, snapshots in steps:
                session_import.add(step, snapshots)
            session_import.finish(labels)
        finally:
            session_import.drop()

    def rebuild_head(self, head: Head, *, instead_of: bytes | None = None) -> None:
        self._sessions.rebuild(head, instead_of)

    def delete(self, sessions: Sequence[str], *, epochs: Mapping[str, int] | None = None) -> None:
        self._removal.delete(sessions, epochs or {})

    def expire_after(self, days: float | None) -> None:
        """Finished sessions expire that long from now, existing ones included; None: never."""
        self._journal.expiry.apply(days)

    def expired(self, session: str) -> Tombstone | None:
        """The tombstone of a session that has expired, until it is stored with the others."""
        return self._journal.expiry.tombstone(session)

    def instant(self) -> Instant:
        return self._time.instant()

    def size_bytes(self) -> int:
        return int(self._server.execute("GET", self._keys.size) or 0)

    def check(self) -> list[Damage]:
        return list(Health(self._server, self._keys, self._snapshots).examine())

    def changed(self) -> object:
        return self._server.execute("GET", self._keys.changes)

    def close(self) -> None:
        _open.discard(self)
        self._server.close()

    def after_fork(self) -> None:
        """In a forked child: the driver reconnects by itself; locks are replaced."""
        self._journal.after_fork()


def _after_fork() -> None:
    for store in list(_open):
        store.after_fork()


os.register_at_fork(after_in_child=_after_fork)
