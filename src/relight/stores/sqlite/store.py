"""`SqliteStore`: implements `ports.store.Store` on one SQLite file.

Writing goes through `writer`, one transaction at a time with its fsync; reading through `readers`, beside it. Seq and
digest are read inside each transaction, so any number of processes may use one file.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

import apsw

from relight.errors import Conflict, StoreFull
from relight.journal.commit import plan_release, plan_renewal
from relight.journal.queues.order import QueueRow
from relight.journal.queues.small_records import RecordKind
from relight.ports.clock import Clock
from relight.ports.schema import SchemaStatus
from relight.ports.search import StoredText, Words
from relight.ports.store import CheckpointRow, Damage, Place, Query, Record, Seen
from relight.stores.sqlite import listing, queues, reading, search, sessions, snapshots
from relight.stores.sqlite.connection import files
from relight.stores.sqlite.connection import fork_safety as forks
from relight.stores.sqlite.connection.database import Database
from relight.stores.sqlite.connection.driver import BUSY_SECONDS
from relight.stores.sqlite.connection.readers import Readers
from relight.stores.sqlite.connection.wal_check import evidence_of
from relight.stores.sqlite.health import examine, trusted_record
from relight.stores.sqlite.migrate import VERSION
from relight.stores.sqlite.reserve import reserve_path
from relight.stores.sqlite.rows import ROWS, read_text, to_text
from relight.stores.sqlite.statements import SQL
from relight.stores.sqlite.writer import Writer
from relight.text.safe import safe_address
from relight.values.lease import Instant
from relight.values.queues import QueueKey
from relight.values.session import Head, Identity
from relight.values.snapshot import Snapshot
from relight.values.status import Status
from relight.values.step import Committed, Draft, Step
from relight.values.store import StoreInfo

_T = TypeVar("_T")


class SqliteStore:
    """A store in the file at `path`. Thread-safe, and safe with several processes on the same file."""

    def __init__(self, path: str | Path, clock: Clock, *, busy_seconds: float = BUSY_SECONDS) -> None:
        self._path = Path(path).absolute()
        self.url = f"sqlite:///{quote(str(self._path))}"
        self._clock = clock
        self._database = Database(self._path, busy_seconds=busy_seconds)
        first = self._database.open()
        self._readers = Readers(self._database)
        self._writer = Writer(self._database, clock, first)
        forks.register(self)

    @classmethod
    def schema_status(cls, path: Path) -> SchemaStatus:
        """The schema version of the file. Creates and changes nothing."""
        found = Database(path.absolute()).schema_version()
        return SchemaStatus(part="store", place=str(path.absolute()), found=found, wanted=VERSION)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {safe_address(self.url)}>"

    @property
    def info(self) -> StoreInfo:
        return StoreInfo(
            kind="sqlite",
            location=safe_address(self.url),
            durability="power-loss",
            schema_version=VERSION,
            read_only=self._database.read_only,
            copies_itself=True,
            indexed=True,
            ordered=True,
        )

    @property
    def blobs(self) -> Path:
        """The directory beside it for the content of workspaces."""
        return self._path.with_name(self._path.name + ".blobs")

    # -- sessions ---------------------------------------------------------------------------------------------

    def create(self, identity: Identity, head: Head) -> None:
        with self._writer.transaction(identity.id) as cursor:
            sid = sessions.create(cursor, self._writer.journal, identity, head)
        self._database.watermark.write([(sid, head.seq)])

    def update(self, session: str, change: Callable[[Identity], Identity]) -> Identity:
        with self._writer.change(session) as cursor:
            return sessions.update(cursor, session, change)

    def find(self, session: str) -> Record | None:
        with self._readers.reading(session) as cursor:
            return sessions.find(cursor, self._database, session)

    def find_named(self, name: str) -> Record | None:
        with self._readers.reading() as cursor:
            return sessions.find_named(cursor, self._database, name)

    def find_prefixed(self, prefix: str, limit: int) -> list[Record]:
        with self._readers.reading() as cursor:
            return sessions.find_prefixed(cursor, self._database, prefix, limit)

    def list_sessions(self, query: Query) -> list[Record]:
        with self._readers.reading() as cursor:
            rows = listing.page(cursor, query)
            return [trusted_record(cursor, self._database.watermark, row[0], ROWS.listed_record(row)) for row in rows]

    def list_ordered(self, query: Query, order: str, before: Place | None) -> list[Record]:
        with self._readers.reading() as cursor:
            rows = listing.in_order(cursor, query, order, before)
            return [trusted_record(cursor, self._database.watermark, row[0], ROWS.listed_record(row)) for row in rows]

    def count_sessions(self) -> dict[Status, int]:
        with self._readers.reading() as cursor:
            return listing.counts(cursor)

    # -- the journal ------------------------------------------------------------------------------------------

    def commit(self, session: str, draft: Draft) -> Committed:
        return self._writer.commit(session, draft)

    def commit_all(self, steps: Sequence[tuple[str, Draft]]) -> list[Committed | BaseException]:
        return self._writer.commit_all(steps)

    def find_commit(self, session: str, key: bytes, *, after: int) -> Committed | None:
        with self._readers.reading(session) as cursor:
            return reading.find_commit(cursor, self._database, session, key, after)

    def renew(self, session: str, *, owner: str, epoch: int) -> None:
        with self._writer.transaction(session) as cursor:
            sid, head = self._writer.journal.read_head(cursor, session)
            renewed = plan_renewal(head, owner=owner, epoch=epoch, now=self.instant())
            self._writer.journal.put_head(cursor, sid, renewed)

    def release(self, session: str, *, owner: str, epoch: int) -> None:
        with self._writer.transaction(session) as cursor:
            sid, head = self._writer.journal.read_head(cursor, session)
            self._writer.journal.put_head(cursor, sid, plan_release(head, owner=owner, epoch=epoch))

    def steps(self, session: str, *, after: int = 0, upto: int | None = None) -> Iterator[Step]:
        return reading.steps(self._readers, session, after, upto)

    def checkpoints(self, session: str, *, after: int = 0, upto: int | None = None) -> list[CheckpointRow]:
        with self._readers.reading(session) as cursor:
            return reading.checkpoints(cursor, session, after, upto)

    # -- queues -----------------------------------------------------------------------------------------------

    def list_queue_keys(self) -> list[QueueKey]:
        with self._readers.reading() as cursor:
            return queues.list_queues(cursor)

    def list_waiting(self, line: QueueKey, limit: int) -> list[QueueRow]:
        with self._readers.reading() as cursor:
            return queues.list_first(cursor, line, limit, self._clock.now_us())

    def put_record(self, kind: RecordKind, name: str, record: bytes | None) -> None:
        def put() -> None:
            with self._writer.change() as cursor:
                queues.put_record(cursor, kind, name, record)

        if kind == "tombstone":  # the first write of a removal
            self._freeing(put)
        else:
            put()

    def exchange_record(self, kind: RecordKind, name: str, before: bytes | None, record: bytes) -> bool:
        with self._writer.change() as cursor:
            if queues.find_record(cursor, kind, name) != before:
                return False
            queues.put_record(cursor, kind, name, record)
            return True

    def list_records(self, kind: RecordKind) -> dict[str, bytes]:
        with self._readers.reading() as cursor:
            return queues.list_records(cursor, kind)

    # -- snapshots --------------------------------------------------------------------------------------------

    def add_segment(self, pool: str, segment: str) -> None:
        with self._writer.change() as cursor:
            snapshots.add_segment(cursor, pool, segment)

    def list_segments(self, pool: str) -> frozenset[str]:
        with self._readers.reading() as cursor:
            return snapshots.segments(cursor, pool)

    def remove_segments(self, pool: str, segments: Iterable[str]) -> None:
        going = list(segments)

        def remove() -> None:
            with self._writer.change() as cursor:
                snapshots.remove_segments(cursor, pool, going)

        self._freeing(remove)  # the files themselves are deleted next

    def list_snapshots(self, pool: str, *, without: Sequence[str] = ()) -> frozenset[str]:
        with self._readers.reading() as cursor:
            return snapshots.of_pool(cursor, pool, without)

    def list_pools(self) -> frozenset[str]:
        with self._readers.reading() as cursor:
            return snapshots.pools(cursor)

    def drop_snapshots(
        self, session: str, seq: int, *, roots: Collection[str] | None = None, seen: Seen | None = None
    ) -> int:
        with self._writer.change(session) as cursor:
            if seen is not None:
                self._check_as_seen(cursor, session, seen)
            sid = self._writer.journal.sid_of(cursor, session)
            return snapshots.drop(cursor, sid, seq, roots)

    def _check_as_seen(self, cursor: apsw.Cursor, session: str, seen: Seen) -> None:
        _, head = self._writer.journal.read_head(cursor, session)
        forks = cursor.execute(SQL["find_forks"], (to_text(session),)).fetchall()
        if (head.seq, frozenset(read_text(fork) or "" for (fork,) in forks)) != (seen.seq, seen.forks):
            raise Conflict(f"{session}: it was written to or forked meanwhile")

    # -- labels -----------------------------------------------------------------------------------------------

    def label(self, session: str, seq: int, label: str, at_us: int) -> None:
        with self._writer.change(session) as cursor:
            sid = self._writer.journal.sid_of(cursor, session)
            self._writer.journal.write_label(cursor, sid, seq, label)

    def unlabel(self, session: str, seq: int) -> int:
        with self._writer.change(session) as cursor:
            sid = self._writer.journal.sid_of(cursor, session)
            cursor.execute(SQL["delete_checkpoint_labels"], (sid, seq))
            return cursor.connection.changes()

    def find_label(self, session: str, label: str, *, upto: int | None = None) -> int | None:
        with self._readers.reading(session) as cursor:
            return reading.find_label(cursor, self._database, session, label, upto)

    # -- the index of words -----------------------------------------------------------------------------------

    def count_unindexed(self) -> int:
        with self._readers.reading() as cursor:
            return search.count_unindexed(cursor)

    def list_unindexed(self, limit: int, *, newest: bool = False) -> list[StoredText]:
        with self._readers.reading() as cursor:
            return search.list_unindexed(cursor, limit, newest=newest)

    def index_steps(self, steps: Sequence[Words]) -> bool:
        with self._writer.transaction() as cursor:
            return search.index_steps(cursor, steps)

    def newest_block(self) -> int:
        with self._readers.reading() as cursor:
            return search.newest_block(cursor)

    def find_words(self, first: str, last: str, blocks: Sequence[int]) -> list[tuple[int, bytes]]:
        with self._readers.reading() as cursor:
            return search.find_words(cursor, first, last, blocks)

    def list_jumps(self, session: str, *, after: int) -> list[tuple[int, int]]:
        with self._readers.reading(session) as cursor:
            return search.list_jumps(cursor, session, after)

    def read_places(self, places: Sequence[int]) -> list[StoredText]:
        with self._readers.reading() as cursor:
            return search.read_places(cursor, places)

    # -- the rest ---------------------------------------------------------------------------------------------

    def import_sessions(
        self,
        records: Sequence[Record],
        steps: Iterable[tuple[Step, Sequence[Snapshot]]],
        labels: Iterable[tuple[str, int, str]],
    ) -> None:
        with self._writer.transaction() as cursor:
            acknowledged = sessions.import_sessions(cursor, self._writer.journal, records, steps, labels)
        self._database.watermark.write(acknowledged)

    def rebuild_head(self, head: Head, *, instead_of: bytes | None = None) -> None:
        with self._writer.change(head.session) as cursor:
            sid = sessions.rebuild(cursor, self._writer.journal, self._database.watermark, head, instead_of)
        self._database.watermark.write([(sid, head.seq)])

    def delete(self, sessions: Sequence[str], *, epochs: Mapping[str, int] | None = None) -> None:
        try:
            sids = self._freeing(lambda: self._delete_rows(sessions, epochs or {}))
            self._database.watermark.clear(sids)
            if sids:
                from relight.stores.sqlite.removal import wipe

                with self._database.own_connection() as connection:
                    wipe(connection, self._clock, self._path, give_back=self._database.on_reserve)
        finally:
            self._database.restore_reserve()

    def _delete_rows(self, sessions: Sequence[str], epochs: Mapping[str, int]) -> list[int]:
        from relight.stores.sqlite.removal import check_epochs, remove_rows

        with self._writer.change() as cursor:
            check_epochs(cursor, self._writer.journal, epochs)
            cursor.execute(SQL["set_secure_delete_fast" if self._database.on_reserve else "set_secure_delete"])
            try:
                sids = remove_rows(cursor, sessions)
            finally:
                cursor.execute(SQL["set_secure_delete"])
            self._writer.journal.forget()
        return sids

    def _freeing(self, act: Callable[[], _T]) -> _T:
        """Do what is part of a removal; on a full disk with the space that is reserved for it."""
        if not self._database.on_reserve:
            try:
                return act()
            except StoreFull:
                if not reserve_path(self._path).exists():
                    raise
            self._reopen(self._database.use_reserve)
        try:
            return act()
        except StoreFull:
            self._reopen(self._database.restore_reserve)
            raise

    def _reopen(self, between: Callable[[], None]) -> None:
        """Open the file again as the disk now allows, for reading or for writing: with no connection open in between,
        its log and the log's index take no space."""
        self.suspend()
        try:
            between()
            first = self._database.open()
            if first is not None:
                first.close()
        finally:
            self.resume()

    def instant(self) -> Instant:
        return self._clock.instant()

    def size_bytes(self) -> int:
        return files.size_bytes(self._path, files.wal_of(self._path))

    def check(self) -> list[Damage]:
        with self._readers.reading() as cursor:
            return list(examine(cursor.connection, self._database.watermark, evidence_of(self._path)))

    def copy_to(self, path: Path, progress: Callable[[int, int], object]) -> None:
        from relight.stores.sqlite.backup import backup  # imported late: few processes make one

        backup(self._database, path, progress)

    def changed(self) -> object:
        with self._readers.watching() as connection:
            return connection.execute(SQL["data_version"]).get

    def close(self) -> None:
        forks.unregister(self)
        self.suspend()
        self._database.restore_reserve()
        if self._writer.transactions:
            self._database.keep_reserve()
        self._database.ended = self._database.ended or "the store was closed"
        self.resume()

    def suspend(self) -> None:
        """Close every connection, and let no thread have one until `resume`."""
        self._writer.suspend()
        self._readers.suspend()
        self._database.watermark.close()

    def resume_in_child(self) -> None:
        """In a forked child: connections are closed, and the threads that waited for one are the parent's."""
        self._readers = Readers(self._database)
        self._writer = self._writer.in_child()

    def resume(self) -> None:
        """Allow connections again after `suspend`."""
        self._readers.resume()
        self._writer.resume()
