"""Schema migrations, and the check that a database has the tables of its version.

Migrations are numbered files. Each runs in one transaction together with its number, under an advisory lock of that
transaction: so there is never half of one, and any number of workers may start at once. If the schema is up to date
nothing is written, and no write permission is needed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from relight.errors import Corrupt, NewerStore, NotAStore, StoreError
from relight.stores.named_statements import uncommented
from relight.stores.postgres.connections import Connections, Cursor
from relight.stores.postgres.driver import read_only, with_restore_hint
from relight.stores.postgres.statements import HERE, SQL

MIGRATIONS: Final = tuple(sorted((HERE / "migrations").glob("[0-9]*.sql")))
VERSION: Final = len(MIGRATIONS)
TABLES: Final = (
    "blobs",
    "checkpoint_labels",
    "heads",
    "indexed",
    "kept",
    "search_words",
    "segments",
    "session_labels",
    "sessions",
    "snapshots",
    "steps",
    "store",
    "unindexed",
    "waiting",
)


class ServerState(NamedTuple):
    """What was found at an address."""

    exists: bool
    """a store, of whatever version"""
    has_schema: bool
    read_only: bool
    syncs: bool
    whole_pages: bool
    unlogged: bool
    """a table that the server empties after a crash"""

    @property
    def durability(self) -> str:
        """What an acknowledged step survives. Every transaction itself sets synchronous_commit."""
        if self.unlogged:
            return "none"
        return "power-loss" if self.syncs and self.whole_pages else "process-crash"

    @property
    def weakness(self) -> tuple[str, str]:
        """Why durability is not power-loss, and what to do about it; empty if it is."""
        if self.unlogged:
            return "a table is unlogged: the server empties it after a crash", "ALTER TABLE ... SET LOGGED"
        if not self.syncs:
            return "the server runs with fsync off: a crash of its machine loses steps", "set fsync = on on the server"
        if not self.whole_pages:
            return "the server runs with full_page_writes off: a power cut may tear a page", "set full_page_writes = on"
        return "", ""


class Opened(NamedTuple):
    """The id, schema version and state of an opened store."""

    id: str
    version: int
    state: ServerState


def inspect(cursor: Cursor) -> ServerState:
    """What is at this address, and the server's settings."""
    row = cursor.execute(SQL["inspect"]).fetchone()
    assert row is not None
    return ServerState(*row)


def open_schema(connections: Connections, *, create: bool) -> Opened | None:
    """The store, migrated; None if there is none and none is to be created."""
    with connections.reading() as cursor:
        state = inspect(cursor)
        found = _read(cursor) if state.exists else None
    if found is None and not create:
        return None
    if found is not None and found[1] > VERSION:
        raise NewerStore(connections.where, found=found[1], known=VERSION)
    if found is None or found[1] < VERSION:
        if state.read_only:
            raise read_only(connections.where)
        _migrate(connections)
    with connections.reading() as cursor:
        state, found = inspect(cursor), _read(cursor)
        missing = set(TABLES) - {name for (name,) in cursor.execute(SQL["tables"])}
    if missing or found is None:
        lost = ", ".join(sorted(missing)) or "its row"
        raise with_restore_hint(Corrupt(f"the store {connections.where} is damaged (missing: {lost})"))
    return Opened(id=found[0], version=found[1], state=state)


def schema_version(connections: Connections) -> int | None:
    """The schema version; None if there is no store. Changes nothing."""
    with connections.reading() as cursor:
        found = _read(cursor) if inspect(cursor).exists else None
    if found is not None and found[1] > VERSION:
        raise NewerStore(connections.where, found=found[1], known=VERSION)
    return None if found is None else found[1]


def _read(cursor: Cursor) -> tuple[str, int] | None:
    row = cursor.execute(SQL["read_store"]).fetchone()
    return None if row is None else (row[0], row[1])


def _migrate(connections: Connections) -> None:
    for number, path in enumerate(MIGRATIONS, 1):
        with connections.transaction() as cursor:
            cursor.execute(SQL["migration_lock"])
            run(cursor, number, path, connections.where)


def run(cursor: Cursor, number: int, path: Path, where: str) -> None:
    """Run one migration unless another process did, inside a transaction that holds the lock."""
    state = inspect(cursor)
    found = _read(cursor) if state.exists else None
    if number == 1 and state.exists and found is None:
        raise Corrupt(f"the store {where} is damaged (its own row is missing)")
    if found is None and state.has_schema and _is_foreign(cursor):
        raise _foreign(where)
    if (found[1] if found is not None else 0) >= number:
        return
    # Through the connection: a cursor for binary results cannot send several statements at once.
    cursor.connection.execute(uncommented(path.read_text(encoding="utf-8")).encode())
    cursor.execute(SQL["set_version"], (number,))


def _is_foreign(cursor: Cursor) -> bool:
    """True if the schema `relight` has tables of another application."""
    return cursor.execute(SQL["tables"]).fetchone() is not None


def _foreign(where: str) -> StoreError:
    error = NotAStore(where, "its schema relight belongs to another application")
    error.hints = ("choose another database: set RELIGHT_STORE",)
    return error


def dump(cursor: Cursor) -> str:
    """The schema in the form of `schema.txt`."""
    return "".join(f"{line.rstrip()}\n" for (line,) in cursor.execute(SQL["schema"]))
