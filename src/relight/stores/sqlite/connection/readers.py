"""Connections for reading: a small pool, so that readers never wait for the writer.

Each is used by one thread for a short time; none keeps a read transaction open, because that would keep the log from
being truncated.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import apsw

from relight.stores.sqlite.connection.database import Database
from relight.stores.sqlite.connection.driver import DRIVER_ERRORS, store_error
from relight.system.permits import Permit, Permits

MAX_READERS: Final = 8
"""concurrent readers; further ones wait"""


class Readers:
    """At most `MAX_READERS` connections, opened when first needed."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._permits = Permits(MAX_READERS)
        self._idle: list[apsw.Connection] = []
        self._watch: apsw.Connection | None = None
        self._watching = Permits(1)
        self._suspended: list[Permit] = []
        """all permits, between `suspend` and `resume`"""

    @contextmanager
    def reading(self, session: str | None = None) -> Iterator[apsw.Cursor]:
        """A cursor for a short read; the driver's errors are translated."""
        with self._permits.take():
            self._database.check_usable()
            try:
                connection = self._idle.pop() if self._idle else self._database.connect_reader()
            except apsw.Error as error:
                raise store_error(error, self._database.where, session=session) from None
            cursor = connection.cursor()
            try:
                yield cursor
                # A statement of which a row is left keeps the snapshot of its connection, and the caller's frame keeps
                # the cursor a moment longer than the connection is ours: the next reader would see an old head, and
                # take it for a loss of what was acknowledged since.
                cursor.close(True)
            except DRIVER_ERRORS as error:
                errno = connection.system_errno
                _discard(connection, cursor)  # it may cache damage, or have a deleted file open
                raise store_error(error, self._database.where, session=session, system_errno=errno) from None
            except BaseException:
                _discard(connection, cursor)  # a statement may be half read
                raise
            self._idle.append(connection)

    @contextmanager
    def watching(self) -> Iterator[apsw.Connection]:
        """The one connection for `data_version`, whose values can only be compared with each other."""
        with self._watching.take():
            self._database.check_usable()
            try:
                if self._watch is None:
                    self._watch = self._database.connect_reader()
                yield self._watch
            except apsw.Error as error:
                self._close_watch()
                raise store_error(error, self._database.where) from None

    def suspend(self) -> None:
        """Wait until no thread reads, close all connections, and block readers until `resume`."""
        self._suspended = [self._watching.take(), *(self._permits.take() for _ in range(MAX_READERS))]
        self._close_watch()
        while self._idle:
            self._idle.pop().close()

    def resume(self) -> None:
        """Allow reading again after `suspend`."""
        while self._suspended:
            self._suspended.pop().release()

    def _close_watch(self) -> None:
        if self._watch is not None:
            self._watch.close()
            self._watch = None


def _discard(connection: apsw.Connection, cursor: apsw.Cursor) -> None:
    """Close it whatever is half read: an interrupted statement makes an ordinary close fail as busy."""
    cursor.close(True)
    connection.close(True)
