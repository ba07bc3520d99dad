"""The file, opened: which kind of connection may be had, and every connection with the same settings.

Opening goes: look at the log before SQLite does (wal.py), connect, see whose database it is and how old, migrate,
compare the schema, then compare what SQLite made of the log with what was seen in it. A file or directory that cannot
be written is opened for reading, where SQLite can; so is one on a full disk.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import quote

import apsw

from relight.errors import NotAStore, StoreError, StoreFull, StoreReadOnly, StoreUnavailable
from relight.stores.sqlite import files, migrate
from relight.stores.sqlite.driver import BUSY_SECONDS, explained
from relight.stores.sqlite.health import Misses
from relight.stores.sqlite.statements import SQL
from relight.stores.sqlite.wal_check import check_log
from relight.stores.sqlite.watermark import Watermark

_READ_WRITE: Final = apsw.SQLITE_OPEN_READWRITE
_READ_ONLY: Final = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
_CANNOT_WRITE: Final = (apsw.CantOpenError, apsw.ReadOnlyError, apsw.PermissionsError)
_STATEMENT_CACHE: Final = 64
LOOK_SECONDS: Final = 0.2
_AGAIN_SECONDS: Final = 0.005
"""how often a writer makes sure that its file is still where it was"""
_SETTINGS: Final = ("set_full", "set_secure_delete", "set_temp_store", "set_trusted_schema", "set_cell_size_check")


class Database:
    """How to reach one database file."""

    def __init__(self, path: Path, *, busy_seconds: float = BUSY_SECONDS) -> None:
        self.path = path
        self.where = str(path)
        self.read_only = False
        self._unwritable: type[StoreReadOnly | StoreFull] = StoreReadOnly
        """why, where it can only be read"""
        self.ended: str | None = None
        """why nothing here can be used any more"""
        self._file: tuple[int, int] | None = None
        self._looked_us = 0
        self.told = Watermark(path)
        self.misses = Misses(self.told)
        self._busy_ms = round(busy_seconds * 1000)
        self._address = ""
        """the URI for reading where nothing can be written"""

    def open(self) -> apsw.Connection | None:
        """The first connection, for writing; None where nothing here can be written."""
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

    def _open_for_writing(self) -> apsw.Connection:
        try:
            connection = self._connect(self.where, _READ_WRITE)
            try:
                self._settle(connection)
            except BaseException:
                connection.close()
                raise
            self._file = self._found()
        except apsw.NotADBError:
            raise NotAStore(self.where, "not a database") from None
        except _CANNOT_WRITE:
            raise StoreReadOnly(self.where) from None
        except apsw.Error as error:
            raise explained(error, self.where) from None
        return connection

    def _settle(self, connection: apsw.Connection) -> None:
        version = migrate.version_of(connection, self.where)
        if connection.readonly("main"):
            raise StoreReadOnly(self.where)
        if self._set_wal(connection) != "wal":
            raise StoreUnavailable(f"{self.where}: its file system does not allow a write-ahead log")
        connection.execute(SQL["set_journal_size_limit"])
        if version < migrate.VERSION:
            migrate.migrate(connection)
        migrate.check_schema(connection, self.where)
        check_log(connection, self.path, self.told)

    def _set_wal(self, connection: apsw.Connection) -> object:
        """Two that make a store at the same moment would wait for each other, so SQLite refuses one of them at once."""
        deadline = time.monotonic() + self._busy_ms / 1000
        while True:
            try:
                return connection.execute(SQL["set_wal"]).get
            except apsw.BusyError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_AGAIN_SECONDS)

    def _open_for_reading(self) -> None:
        """By the log's rules where there is a log, as an unchanging file where there is none."""
        log = files.wal_of(self.path)
        tries = ["mode=ro"] if files.size_bytes(log) else ["mode=ro", "mode=ro&immutable=1"]
        for options in tries:
            self._address = f"file:{quote(self.where)}?{options}"
            try:
                self._look()
            except _CANNOT_WRITE:
                continue
            except apsw.NotADBError:
                raise NotAStore(self.where, "not a database") from None
            except apsw.Error as error:
                told = explained(error, self.where)
                if isinstance(told, StoreFull) and options != tries[-1]:
                    continue  # no room for the index of the log: where there is no log, none is needed
                raise told from None
            self.read_only = True
            return
        raise StoreReadOnly(self.where)

    def _look(self) -> None:
        """Is it a store that can be read as it is?"""
        connection = self._connect(self._address, _READ_ONLY)
        try:
            if migrate.version_of(connection, self.where) < migrate.VERSION:
                raise StoreReadOnly(self.where)  # an older schema wants to be migrated first
            migrate.check_schema(connection, self.where)
        finally:
            connection.close()

    def standing(self) -> int | None:
        """The version that is there; None where there is no store. Nothing is changed."""
        if not self.path.exists():
            return None
        tries = ("mode=ro", "mode=ro&immutable=1")
        for options in tries:
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
                raise explained(error, self.where) from None
        raise StoreUnavailable(f"{self.where}: permission denied", hints=["ask its owner, or set RELIGHT_STORE"])

    def connect_reader(self) -> apsw.Connection:
        """One more connection, for reading. What it raises is the driver's."""
        if self.read_only:
            return self._connect(self._address, _READ_ONLY)
        connection = self._connect(self.where, _READ_WRITE)
        connection.execute(SQL["set_query_only"])
        return connection

    def connect_writer(self) -> apsw.Connection:
        """One more connection, for writing. What it raises is the driver's, or StoreReadOnly, or StoreFull."""
        if self.read_only:
            raise self._unwritable(self.where)
        return self._connect(self.where, _READ_WRITE)

    def check_usable(self) -> None:
        """Raise what ended it, if something did."""
        if self.ended is not None:
            raise StoreUnavailable(f"{self.where}: {self.ended}")

    def check_there(self, now_us: int) -> None:
        """SQLite goes on writing into a file that was deleted; what is written there is not durable. Now and then."""
        if now_us - self._looked_us < LOOK_SECONDS * 1e6:
            return
        self._looked_us = now_us
        if self._found() != self._file:
            self.ended = "the file was moved or deleted while in use"
            self.check_usable()

    def _found(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self.where)
        except OSError:
            return None
        return found.st_dev, found.st_ino

    @contextmanager
    def own_connection(self) -> Iterator[apsw.Connection]:
        """A connection for writing that is used for one thing and closed; the driver's errors come out as ours."""
        try:
            connection = self.connect_writer()
            try:
                yield connection
            finally:
                connection.close()
        except apsw.Error as error:
            raise explained(error, self.where) from None

    def _connect(self, address: str, flags: int) -> apsw.Connection:
        self.check_usable()
        connection = apsw.Connection(address, flags=flags, statementcachesize=_STATEMENT_CACHE)
        try:
            connection.set_busy_timeout(self._busy_ms)
            for setting in _SETTINGS:
                connection.execute(SQL[setting])
        except BaseException:
            connection.close()
            raise
        return connection
