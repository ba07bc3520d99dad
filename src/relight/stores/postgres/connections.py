"""Connections to the server: made when first needed, given back after each use, thrown away once they are doubtful.

A connection that the server has closed meanwhile (a restart, a failover) can be seen without asking: its socket has
something to read. So what comes after a restart goes over a new connection and works. Nothing is kept in a connection
between two transactions, and no thread of our own runs behind them.

A fork leaves its parent's connections alone: the child forgets them, without a goodbye that the server would take for
the parent's.
"""

from __future__ import annotations

import logging
import os
import select
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, Protocol

import psycopg
from psycopg.pq import TransactionStatus

from relight.errors import StoreError, StoreUnavailable
from relight.stores.postgres.driver import DRIVER_ERRORS, explained, hint_for, place_of
from relight.stores.postgres.statements import BEGIN, COMMIT, ROLLBACK, SQL
from relight.system.permits import Permits

MAX: Final = 32
"""connections of one opened store; further users wait"""
WAIT_SECONDS: Final = 60.0
"""for one of them"""
_DRIVER_SETTINGS: Final[dict[str, Any]] = {
    "autocommit": True,
    "prepare_threshold": None,  # a prepared statement belongs to one connection, and a pooler gives another each time
    "client_encoding": "utf8",
    "application_name": "relight",
}
_PATIENCE: Final = {
    "connect_timeout": "10",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}
"""how long a server that has vanished is waited for; the address may say otherwise"""

Connection = psycopg.Connection[tuple[Any, ...]]
Cursor = psycopg.Cursor[tuple[Any, ...]]


class Forgetting(Protocol):
    """What must not be used by both sides of a fork."""

    def forget(self) -> None:
        """In the child: begin anew."""
        ...


_forgetting: weakref.WeakSet[Forgetting] = weakref.WeakSet()
_inherited: list[Connection] = []
"""of the parent: never closed, never collected"""


class Connections:
    """At most `MAX` at a time, for any number of threads."""

    def __init__(self, conninfo: str) -> None:
        self.where = place_of(conninfo)
        self.ended: str | None = None
        """why nothing here can be used any more"""
        self._conninfo = psycopg.conninfo.make_conninfo(conninfo, **_settings(conninfo))
        self._places = Permits(MAX)
        self._idle: list[Connection] = []
        forget_in_child(self)

    @contextmanager
    def borrowed(self) -> Iterator[Connection]:
        """A connection for a moment. What the driver raises comes through; a connection in doubt is closed."""
        permit = self._places.take_within(WAIT_SECONDS)
        if permit is None:
            raise StoreUnavailable(f"{self.where}: all {MAX} connections are in use")
        with permit:
            connection = self._take()
            try:
                yield connection
            finally:
                self._give_back(connection)

    @contextmanager
    def reading(self, session: str | None = None) -> Iterator[Cursor]:
        """A cursor whose every statement is a transaction; the driver's errors come out as ours."""
        with self.borrowed() as connection:
            try:
                yield connection.cursor(binary=True)
            except DRIVER_ERRORS as error:
                raise explained(error, self.where, session=session) from None

    @contextmanager
    def transaction(self, session: str | None = None, *, begin: bytes = BEGIN) -> Iterator[Cursor]:
        """Leaving it normally commits; an exception undoes it. One exchange begins it, one ends it."""
        with self.borrowed() as connection:
            try:
                with connection.pipeline():
                    connection.execute(begin)
                    connection.execute(SQL["settle_transaction"])
                yield connection.cursor(binary=True)
            except DRIVER_ERRORS as error:
                undo(connection)
                raise explained(error, self.where, session=session) from None
            except BaseException:
                undo(connection)
                raise
            try:
                connection.execute(COMMIT)
            except psycopg.Error as error:
                raise self.doubted(connection, error) from None

    def doubted(self, connection: Connection, error: psycopg.Error, session: str | None = None) -> StoreError:
        """Our error where a commit failed: an answer that is an error is certain, a cut connection says nothing."""
        certain = not is_lost(connection)
        undo(connection)
        ours = explained(error, self.where, session=session)
        if certain:
            return ours
        return StoreUnavailable(
            f"{self.where}: it is not known whether it was written: the connection was lost",
            evidence=ours.evidence,
            hints=ours.hints,
        )

    def close(self) -> None:
        """Give all of them back. Whoever uses one just now closes it afterwards."""
        self.ended = self.ended or "the store was closed"
        while self._idle:
            self._idle.pop().close()

    def forget(self) -> None:
        """In a forked child: the connections are the parent's, and so are the places taken."""
        _inherited.extend(self._idle)
        self._idle = []
        self._places = Permits(MAX)

    def _take(self) -> Connection:
        if self.ended is not None:
            raise StoreUnavailable(f"{self.where}: {self.ended}")
        while self._idle:
            with suppress(IndexError):  # another thread was faster
                connection = self._idle.pop()
                if not _has_news(connection):
                    return connection
                connection.close()
        return self._connect()

    def _connect(self) -> Connection:
        try:
            return psycopg.connect(self._conninfo, **_DRIVER_SETTINGS)
        except psycopg.Error as error:
            lines = [line.strip() for line in str(error).splitlines() if line.strip()]
            raise StoreUnavailable(
                f"{self.where}: no connection to the server",
                evidence=[f"postgres: {line}" for line in lines[:3]],
                hints=[hint_for(str(error))],
            ) from None

    def _give_back(self, connection: Connection) -> None:
        if not connection.closed and connection.info.transaction_status != TransactionStatus.IDLE:
            undo(connection)
        if connection.closed or self.ended is not None:
            connection.close()
        else:
            self._idle.append(connection)


def undo(connection: Connection) -> None:
    """As if nothing had been tried. A connection that cannot even do that is closed, which does it too."""
    try:
        if not connection.closed and connection.info.transaction_status != TransactionStatus.IDLE:
            connection.execute(ROLLBACK)
    except psycopg.Error:
        connection.close()


def is_lost(connection: Connection) -> bool:
    """Is nobody there to answer any more?"""
    return connection.closed or connection.broken


def _has_news(connection: Connection) -> bool:
    """Nothing is expected on an idle connection: what can be read there is its end."""
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))


def _settings(conninfo: str) -> dict[str, str]:
    given = psycopg.conninfo.conninfo_to_dict(conninfo)
    return {name: value for name, value in _PATIENCE.items() if name not in given}


def forget_in_child(one: Forgetting) -> None:
    """From now on it begins anew in every forked child."""
    _forgetting.add(one)


def _forget_all() -> None:
    for one in list(_forgetting):
        one.forget()


os.register_at_fork(after_in_child=_forget_all)
logging.getLogger("psycopg").addHandler(logging.NullHandler())  # what it would print about a lost connection, we raise
