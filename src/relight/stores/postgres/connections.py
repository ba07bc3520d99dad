"""Connection pool: connections are opened when first needed, reused, and closed once their state is in doubt.

No state is kept in a connection between two transactions, and there is no thread behind the pool. A forked child drops
its parent's connections without closing them: a Terminate message would end the parent's sessions on the server.
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
from relight.stores.postgres.driver import DRIVER_ERRORS, display_address, hint_for, store_error
from relight.stores.postgres.statements import BEGIN, COMMIT, ROLLBACK, SQL
from relight.system.permits import Permits

MAX_CONNECTIONS: Final = 32
"""connections of one opened store; further users wait"""
WAIT_SECONDS: Final = 60.0
"""how long a user waits for a connection"""
_DRIVER_SETTINGS: Final[dict[str, Any]] = {
    "autocommit": True,
    "prepare_threshold": None,  # prepared statements belong to one server connection, and a pooler switches them
    "client_encoding": "utf8",
    "application_name": "relight",
}
_TIMEOUTS: Final = {
    "connect_timeout": "10",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}
"""how long an unreachable server is waited for, unless the address says otherwise"""

Connection = psycopg.Connection[tuple[Any, ...]]
Cursor = psycopg.Cursor[tuple[Any, ...]]


class ForkAware(Protocol):
    """An object whose state must not be shared across a fork."""

    def reset(self) -> None:
        """In the child: drop what belongs to the parent."""
        ...


_fork_aware: weakref.WeakSet[ForkAware] = weakref.WeakSet()
_inherited: list[Connection] = []
"""connections of the parent: referenced for ever, so that they are neither closed nor collected"""


class Connections:
    """At most `MAX_CONNECTIONS` at a time, for any number of threads."""

    def __init__(self, conninfo: str) -> None:
        self.where = display_address(conninfo)
        self.ended: str | None = None
        """why the store cannot be used any more"""
        self._conninfo = psycopg.conninfo.make_conninfo(conninfo, **_settings(conninfo))
        self._permits = Permits(MAX_CONNECTIONS)
        self._idle: list[Connection] = []
        reset_in_child(self)

    @contextmanager
    def borrowed(self) -> Iterator[Connection]:
        """A connection for a short use. The driver's errors pass through; a connection left in a transaction is rolled
        back."""
        permit = self._permits.take_within(WAIT_SECONDS)
        if permit is None:
            raise StoreUnavailable(f"{self.where}: all {MAX_CONNECTIONS} connections are in use")
        with permit:
            connection = self._acquire()
            try:
                yield connection
            finally:
                self._release(connection)

    @contextmanager
    def reading(self, session: str | None = None) -> Iterator[Cursor]:
        """A cursor in autocommit mode; the driver's errors are translated."""
        with self.borrowed() as connection:
            try:
                yield connection.cursor(binary=True)
            except DRIVER_ERRORS as error:
                raise store_error(error, self.where, session=session) from None

    @contextmanager
    def transaction(self, session: str | None = None, *, begin: bytes = BEGIN) -> Iterator[Cursor]:
        """A transaction: commits on normal exit, rolls back on an exception. One round trip to begin, one to end."""
        with self.borrowed() as connection:
            try:
                with connection.pipeline():
                    connection.execute(begin)
                    connection.execute(SQL["settle_transaction"])
                yield connection.cursor(binary=True)
            except DRIVER_ERRORS as error:
                rollback(connection)
                raise store_error(error, self.where, session=session) from None
            except BaseException:
                rollback(connection)
                raise
            try:
                connection.execute(COMMIT)
            except psycopg.Error as error:
                raise self.commit_error(connection, error) from None

    def commit_error(self, connection: Connection, error: psycopg.Error, session: str | None = None) -> StoreError:
        """The store error for a failed commit. An error reply is certain; a lost connection leaves the outcome
        unknown."""
        certain = not is_broken(connection)
        rollback(connection)
        ours = store_error(error, self.where, session=session)
        if certain:
            return ours
        return StoreUnavailable(
            f"{self.where}: it is not known whether it was written: the connection was lost",
            evidence=ours.evidence,
            hints=ours.hints,
        )

    def close(self) -> None:
        """Close all connections; those in use are closed when they are released."""
        self.ended = self.ended or "the store was closed"
        while self._idle:
            self._idle.pop().close()

    def reset(self) -> None:
        """In a forked child: the connections and the permits taken are the parent's."""
        _inherited.extend(self._idle)
        self._idle = []
        self._permits = Permits(MAX_CONNECTIONS)

    def _acquire(self) -> Connection:
        if self.ended is not None:
            raise StoreUnavailable(f"{self.where}: {self.ended}")
        while self._idle:
            with suppress(IndexError):  # another thread took the last one
                connection = self._idle.pop()
                if not _is_closed_by_server(connection):
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

    def _release(self, connection: Connection) -> None:
        if not connection.closed and connection.info.transaction_status != TransactionStatus.IDLE:
            rollback(connection)
        if connection.closed or self.ended is not None:
            connection.close()
        else:
            self._idle.append(connection)


def rollback(connection: Connection) -> None:
    """Roll back; a connection that cannot even do that is closed, which rolls back too."""
    try:
        if not connection.closed and connection.info.transaction_status != TransactionStatus.IDLE:
            connection.execute(ROLLBACK)
    except psycopg.Error:
        connection.close()


def is_broken(connection: Connection) -> bool:
    """True if the connection to the server is lost."""
    return connection.closed or connection.broken


def _is_closed_by_server(connection: Connection) -> bool:
    """True if the server has closed an idle connection (restart, failover): its socket is readable, as nothing else is
    expected there. So the first statement after a restart goes over a new connection and works."""
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))


def _settings(conninfo: str) -> dict[str, str]:
    given = psycopg.conninfo.conninfo_to_dict(conninfo)
    return {name: value for name, value in _TIMEOUTS.items() if name not in given}


def reset_in_child(one: ForkAware) -> None:
    """Call `reset` of this object in every forked child."""
    _fork_aware.add(one)


def _reset_all() -> None:
    for one in list(_fork_aware):
        one.reset()


os.register_at_fork(after_in_child=_reset_all)
# psycopg logs lost connections as warnings; we raise them.
logging.getLogger("psycopg").addHandler(logging.NullHandler())
