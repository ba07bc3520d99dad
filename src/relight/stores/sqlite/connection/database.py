"""The database file: opening it, and connections that all have the same settings.

Opening: connect, check whose database it is and its version, migrate, compare the schema, then check the write-ahead
log for lost commits (`wal_check`). A file or directory that cannot be written is opened for reading, if SQLite can; so
is one on a full disk.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import quote

import apsw

from relight.errors import NotAStore, StoreError, StoreFull, StoreReadOnly, StoreUnavailable
from relight.stores.sqlite import migrate
from relight.stores.sqlite.connection import files
from relight.stores.sqlite.connection.driver import BUSY_SECONDS, store_error
from relight.stores.sqlite.connection.wal_check import check_log
from relight.stores.sqlite.connection.watermark import Watermark
from relight.stores.sqlite.health import Misses
from relight.stores.sqlite.reserve import FROM_BYTES, make_reserve, release_reserve
from relight.stores.sqlite.statements import SQL
from relight.system.durable import NEEDS_FULL_SYNC
from relight.system.sqlite import WaitingConnection

_READ_WRITE: Final = apsw.SQLITE_OPEN_READWRITE
_READ_ONLY: Final = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
_CANNOT_WRITE: Final = (apsw.CantOpenError, apsw.ReadOnlyError, apsw.PermissionsError)
CHECK_INTERVAL_SECONDS: Final = 0.2
"""how often a writer checks that its file was not moved or deleted"""
_SETTINGS: Final = ("set_full", "set_secure_delete", "set_temp_store", "set_trusted_schema", "set_cell_size_check")
_FULL_SYNC: Final = ("set_fullfsync", "set_checkpoint_fullfsync")


class Database:
    """One database file: how to connect to it, and its watermark."""

    def __init__(self, path: Path, *, busy_seconds: float = BUSY_SECONDS) -> None:
        self.path = path
        self.where = str(path)
        self.read_only = False
        self._unwritable: type[StoreReadOnly | StoreFull] = StoreReadOnly
        """the error for writing, if it can only be read"""
        self.ended: str | None = None
        """why the store cannot be used any more"""
        self._file: tuple[int, int] | None = None
        self._checked_us = 0
        if not path.name:  # the root: the names of the files beside a store are made of its own
            raise NotAStore(str(path), "a directory, not a file")
        self.watermark = Watermark(path)
        self.misses = Misses(self.watermark)
        self._busy_seconds = busy_seconds
        self._address = ""
        """the URI for reading, if nothing can be written"""
        self._may_reserve = True
        self.on_reserve = False
        """the disk is full, and what the reserve held is being used for a removal"""

    def open(self) -> apsw.Connection | None:
        """The first connection, for writing; None if the store can only be read."""
        self.read_only = False
        try:
            files.prepare(self.path)
            connection = self._open_for_writing()
        except StoreFull:
            if not files.size_bytes(self.path):
                raise
            try:
                self._open_for_reading()
            except StoreError:
                raise StoreFull(self.where) from None
            self._unwritable = StoreFull
            return None
        except StoreReadOnly:
            if not self.path.exists():
                raise
            if not os.access(self.path, os.R_OK):
                hints = ["ask its owner, or set RELIGHT_STORE to a path of your own"]
                raise StoreUnavailable(f"{self.where}: permission denied", hints=hints) from None
            self._open_for_reading()
            return None
        return connection

    def keep_reserve(self) -> None:
        """Keep space for removals on a full disk, once the database is large enough; tried once in a process."""
        if self._may_reserve and files.size_bytes(self.path) >= FROM_BYTES:
            self._may_reserve = False
            make_reserve(self.path)

    def use_reserve(self) -> None:
        """On a full disk, free the space that is kept for removals. The store has to be opened again."""
        self.on_reserve = release_reserve(self.path)

    def restore_reserve(self) -> None:
        """After a removal, done or failed: keep the space for the next one again, if it fits."""
        if self.on_reserve:
            self.on_reserve = False
            with contextlib.suppress(StoreError), self.own_connection() as connection:
                connection.wal_checkpoint("main", apsw.SQLITE_CHECKPOINT_TRUNCATE)  # a failed removal filled the log
            make_reserve(self.path, again=True)

    def _open_for_writing(self) -> WaitingConnection:
        try:
            connection = self._connect(self.where, _READ_WRITE)
            try:
                self._prepare(connection)
            except BaseException:
                connection.close()
                raise
            self._file = self._file_id()
        except apsw.NotADBError:
            raise NotAStore(self.where, "not a database") from None
        except _CANNOT_WRITE:
            raise StoreReadOnly(self.where) from None
        except apsw.Error as error:
            raise store_error(error, self.where) from None
        return connection

    def _prepare(self, connection: WaitingConnection) -> None:
        version = migrate.version_of(connection, self.where)
        if connection.readonly("main"):
            raise StoreReadOnly(self.where)
        if not connection.set_wal():
            raise StoreUnavailable(f"{self.where}: its file system does not allow a write-ahead log")
        connection.execute(SQL["set_journal_size_limit"])
        if version < migrate.VERSION:
            migrate.migrate(connection)
        migrate.check_schema(connection, self.where)
        check_log(connection, self.path, self.watermark)

    def _open_for_reading(self) -> None:
        """Find a URI that can read the file without writing anything, and check that it holds a readable store."""
        log = files.wal_of(self.path)
        # `immutable=1` needs neither a lock nor an index of the log, but ignores the log: with one there it would serve
        # an older state.
        modes = ["mode=ro"] if files.size_bytes(log) else ["mode=ro", "mode=ro&immutable=1"]
        for options in modes:
            self._address = f"file:{quote(self.where)}?{options}"
            try:
                self._check_readable()
            except _CANNOT_WRITE:
                continue
            except apsw.NotADBError:
                raise NotAStore(self.where, "not a database") from None
            except apsw.Error as error:
                translated = store_error(error, self.where)
                if isinstance(translated, StoreFull) and options != modes[-1]:
                    continue  # no room for the log's index: without a log, immutable mode needs none
                raise translated from None
            self.read_only = True
            return
        raise StoreReadOnly(self.where)

    def _check_readable(self) -> None:
        """Raise unless the file is a store of this version's schema."""
        connection = self._connect(self._address, _READ_ONLY)
        try:
            if migrate.version_of(connection, self.where) < migrate.VERSION:
                raise StoreReadOnly(self.where)  # an older schema has to be migrated first
            migrate.check_schema(connection, self.where)
        finally:
            connection.close()

    def schema_version(self) -> int | None:
        """The file's schema version; None if it is no store yet. Changes nothing."""
        if not self.path.exists():
            return None
        modes = ("mode=ro", "mode=ro&immutable=1")
        for options in modes:
            try:
                connection = self._connect(f"file:{quote(self.where)}?{options}", _READ_ONLY)
                try:
                    return migrate.version_of(connection, self.where) or None
                finally:
                    connection.close()
            except _CANNOT_WRITE:
                continue
            except apsw.NotADBError:
                raise NotAStore(self.where, "not a database") from None
            except apsw.Error as error:
                raise store_error(error, self.where) from None
        raise StoreUnavailable(f"{self.where}: permission denied", hints=["ask its owner, or set RELIGHT_STORE"])

    def connect_reader(self) -> apsw.Connection:
        """A new connection for reading. Raises the driver's errors."""
        if self.read_only:
            return self._connect(self._address, _READ_ONLY)
        connection = self._connect(self.where, _READ_WRITE)
        connection.execute(SQL["set_query_only"])
        return connection

    def connect_writer(self) -> apsw.Connection:
        """A new connection for writing. Raises the driver's errors, StoreReadOnly or StoreFull."""
        if self.read_only:
            raise self._unwritable(self.where)
        return self._connect(self.where, _READ_WRITE)

    def check_usable(self) -> None:
        """StoreUnavailable if the store was closed or its file is gone."""
        if self.ended is not None:
            raise StoreUnavailable(f"{self.where}: {self.ended}")

    def check_in_place(self, now_us: int) -> None:
        """StoreUnavailable if the file was moved or deleted; checked at most every `CHECK_INTERVAL_SECONDS`.

        SQLite keeps writing into a deleted file, and what it writes there is not durable.
        """
        if now_us - self._checked_us < CHECK_INTERVAL_SECONDS * 1e6:
            return
        self._checked_us = now_us
        if self._file_id() != self._file:
            self.ended = "the file was moved or deleted while in use"
            self.check_usable()
        self.keep_reserve()

    def _file_id(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self.where)
        except OSError:
            return None
        return found.st_dev, found.st_ino

    @contextmanager
    def own_connection(self) -> Iterator[apsw.Connection]:
        """A connection for one write, closed afterwards; the driver's errors are translated."""
        try:
            connection = self.connect_writer()
            try:
                yield connection
            finally:
                connection.close()
        except apsw.Error as error:
            raise store_error(error, self.where) from None

    def _connect(self, address: str, flags: int) -> WaitingConnection:
        self.check_usable()
        connection = WaitingConnection(address, busy_seconds=self._busy_seconds, flags=flags)
        try:
            for setting in settings_of():
                connection.execute(SQL[setting])
        except BaseException:
            connection.close()
            raise
        return connection


def settings_of(needs_full_sync: bool = NEEDS_FULL_SYNC) -> tuple[str, ...]:
    """Statements that set up a connection, on a platform where `fullfsync` must be set explicitly."""
    return _SETTINGS + _FULL_SYNC if needs_full_sync else _SETTINGS
