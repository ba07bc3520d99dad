"""Translates the driver's errors to store errors. No exception of psycopg leaves this package.

StoreFull and StoreReadOnly mean that nothing was written; Corrupt that bytes are not what was written, or that a table
is missing; everything else is StoreUnavailable, with the server's message and what to do. An address is never shown
with its password.
"""

from __future__ import annotations

from typing import Final

from psycopg import Error, errors
from psycopg.conninfo import conninfo_to_dict

from relight.errors import Corrupt, StoreError, StoreFull, StoreReadOnly, StoreUnavailable

DRIVER_ERRORS: Final = (Error, UnicodeDecodeError)
"""what a statement may raise; UnicodeDecodeError if stored text is damaged"""
_DAMAGED: Final = (
    UnicodeDecodeError,
    errors.DataCorrupted,
    errors.IndexCorrupted,
    errors.UndefinedTable,
    errors.UndefinedColumn,
    errors.UndefinedFunction,
    errors.InvalidSchemaName,
    errors.UniqueViolation,
)
_MISSING: Final = (errors.UndefinedTable, errors.UndefinedColumn, errors.UndefinedFunction, errors.InvalidSchemaName)
_READ_ONLY: Final = (errors.ReadOnlySqlTransaction,)
_TIMED_OUT: Final = (
    errors.LockNotAvailable,
    errors.QueryCanceled,
    errors.DeadlockDetected,
    errors.IdleInTransactionSessionTimeout,
)
_HINTS: Final = (
    ("password authentication failed", "check user and password in the address, or set PGPASSWORD"),
    ("no password supplied", "set PGPASSWORD, or put the password into the address"),
    ("no pg_hba.conf entry", "let this machine in: pg_hba.conf of the server"),
    ("too many connections", "raise the limit of the role or database, or put a pooler in front of the server"),
    ("too many clients", "raise max_connections of the server, or put a pooler in front of it"),
    ("remaining connection slots", "raise max_connections of the server, or put a pooler in front of it"),
    ("starting up", "wait until the server is up, then run it again"),
    ("not yet accepting connections", "wait until the server is up, then run it again"),
    ("recovery mode", "wait until the server has recovered, then run it again"),
    ("shutting down", "start the server again, then run it again"),
    ("server closed the connection", "start the server again, or check its log, then run it again"),
    ("does not exist", "create it on the server first: createdb NAME, createuser NAME"),
    ("Connection refused", "start the server, or check host and port in RELIGHT_STORE"),
    ("could not translate host name", "check the host in RELIGHT_STORE"),
    ("timeout expired", "check host, port and firewall between here and the server"),
)


def display_address(conninfo: str) -> str:
    """The address as shown to users: host, port and database, never a password."""
    given = conninfo_to_dict(conninfo)
    host = str(given.get("host") or "local socket")
    port = f":{given['port']}" if given.get("port") else ""
    return f"postgresql://{host}{port}/{given.get('dbname') or ''}"


def store_error(error: Exception, where: str, *, session: str | None = None) -> StoreError:
    """The store error for an error of the driver."""
    message = f"postgres: {_sentence(error)}"
    if isinstance(error, _DAMAGED):
        # Our statements are fixed and tested: one that suddenly does not fit means that the schema was changed.
        damaged = Corrupt(f"the store {where} is damaged ({_sentence(error)})", session=session)
        return with_restore_hint(damaged) if isinstance(error, _MISSING) else damaged
    if isinstance(error, errors.DiskFull):
        return StoreFull(where)
    if isinstance(error, _READ_ONLY):
        return read_only(where)
    if isinstance(error, errors.InsufficientPrivilege):
        hints = ["grant it on the server: GRANT CREATE ON DATABASE ... , or make relight's user the owner"]
        return StoreUnavailable(f"{where}: permission denied", evidence=[message], hints=hints)
    if isinstance(error, _TIMED_OUT):
        hints = ["see who holds what: SELECT * FROM pg_stat_activity WHERE state <> 'idle'"]
        return StoreUnavailable(
            f"{where}: locked by another transaction; nothing was written", evidence=[message], hints=hints
        )
    return StoreUnavailable(f"{where}: the server could not be used", evidence=[message], hints=[hint_for(str(error))])


def with_restore_hint(damaged: Corrupt) -> Corrupt:
    """Add the hint to restore a missing table. It is not recreated: that would hide what was lost."""
    damaged.hints = ("restore what is missing from a backup of the database: pg_restore; it is not recreated",)
    return damaged


def read_only(where: str) -> StoreReadOnly:
    """The error for a replica, or a database that was set to read-only."""
    error = StoreReadOnly(where)
    error.hints = ("this server is a replica or set to read-only: set RELIGHT_STORE to the primary",)
    return error


def hint_for(message: str) -> str:
    """What to do about a message of the server or the network."""
    return next((hint for words, hint in _HINTS if words in message), "check that the server is up: relight doctor")


def _sentence(error: Exception) -> str:
    """The first line of its message."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
