"""Connections for reading: a small pool, so that reading never waits for writing.

Each is used by one thread at a time and given back soon; nothing here keeps a read transaction open, because an open
one keeps the log from being cleared.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import apsw

from relight.stores.sqlite.database import Database
from relight.stores.sqlite.driver import DRIVER_ERRORS, explained
from relight.system.permits import Permit, Permits

MAX: Final = 8
"""readers at a time; further ones wait"""


class Readers:
    """At most `MAX` connections, made when first needed."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._places = Permits(MAX)
        self._idle: list[apsw.Connection] = []
        self._watch: apsw.Connection | None = None
        self._watching = Permits(1)
        self._resting: list[Permit] = []
        """all of them, between `rest` and `wake`"""

    @contextmanager
    def reading(self, session: str | None = None) -> Iterator[apsw.Cursor]:
        """A cursor for a moment; what the driver raises meanwhile comes out as ours."""
        with self._places.take():
            self._database.check_usable()
            try:
                connection = self._idle.pop() if self._idle else self._database.connect_reader()
            except apsw.Error as error:
                raise explained(error, self._database.where, session=session) from None
            try:
                yield connection.cursor()
            except DRIVER_ERRORS as error:
                errno = connection.system_errno
                connection.close()  # it may hold on to damage, or to a file that is gone
                raise explained(error, self._database.where, session=session, system_errno=errno) from None
            except BaseException:
                connection.close()  # a statement may be half read
                raise
            self._idle.append(connection)

    @contextmanager
    def watching(self) -> Iterator[apsw.Connection]:
        """Always the same connection: `data_version` can be compared only with itself."""
        with self._watching.take():
            self._database.check_usable()
            try:
                if self._watch is None:
                    self._watch = self._database.connect_reader()
                yield self._watch
            except apsw.Error as error:
                self._close_watch()
                raise explained(error, self._database.where) from None

    def rest(self) -> None:
        """Wait until nobody reads, close all connections, and keep others out until `wake`."""
        self._resting = [self._watching.take(), *(self._places.take() for _ in range(MAX))]
        self._close_watch()
        while self._idle:
            self._idle.pop().close()

    def wake(self) -> None:
        """Readers may come again."""
        while self._resting:
            self._resting.pop().give_back()

    def _close_watch(self) -> None:
        if self._watch is not None:
            self._watch.close()
            self._watch = None
