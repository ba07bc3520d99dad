"""What a server itself keeps, beside the store: one small SQLite file for tokens, answers, actions and callbacks.

Everything here is about requests, nothing about sessions: it can be deleted, and all that is lost is who may come in,
what was answered under which key, who did what, and which callbacks are outstanding. Each write is synced before it is
relied on. Several servers, and `relight token`, may use the same file.

The audit log is append-only by triggers: an entry is written as begun, its outcome is written once, and only the oldest
beyond the bound go. That keeps a mistake, or a statement that somebody smuggled in, from changing it; it does not stop
whoever may write the file itself, which is its owner.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import apsw

from relight.errors import StoreUnavailable
from relight.system import private_directories
from relight.system.machine import redactor

FILE: Final = "server.db"
_BUSY_MS: Final = 10_000
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS tokens (
    name TEXT PRIMARY KEY, scope TEXT NOT NULL, hash TEXT NOT NULL, created_us INTEGER NOT NULL, revoked_us INTEGER
) STRICT;
CREATE TABLE IF NOT EXISTS logins (
    hash TEXT PRIMARY KEY, created_us INTEGER NOT NULL, expires_us INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS codes (hash TEXT PRIMARY KEY, expires_us INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS replies (
    key TEXT PRIMARY KEY, digest TEXT NOT NULL, run TEXT NOT NULL, made_us INTEGER NOT NULL,
    status INTEGER, headers TEXT, body BLOB
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS replies_made ON replies (made_us);
CREATE TABLE IF NOT EXISTS actions (
    id INTEGER PRIMARY KEY AUTOINCREMENT, at_us INTEGER NOT NULL, who TEXT NOT NULL, scope TEXT NOT NULL,
    verb TEXT NOT NULL, session TEXT, name TEXT, why TEXT, asked TEXT NOT NULL, before TEXT, after TEXT,
    outcome TEXT NOT NULL, undo TEXT
) STRICT;
CREATE TABLE IF NOT EXISTS callbacks (
    id INTEGER PRIMARY KEY AUTOINCREMENT, session TEXT NOT NULL, url TEXT NOT NULL, after_seq INTEGER NOT NULL,
    made_us INTEGER NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS deliveries (
    id INTEGER PRIMARY KEY AUTOINCREMENT, session TEXT NOT NULL, url TEXT NOT NULL, body BLOB NOT NULL,
    tries INTEGER NOT NULL, next_us INTEGER, made_us INTEGER NOT NULL, state TEXT NOT NULL, said TEXT
) STRICT;
CREATE INDEX IF NOT EXISTS deliveries_next ON deliveries (next_us) WHERE next_us IS NOT NULL;
DROP TRIGGER IF EXISTS actions_stay;
CREATE TRIGGER IF NOT EXISTS actions_end_once BEFORE UPDATE ON actions
WHEN OLD.outcome <> 'begun' OR NEW.outcome = 'begun' OR (NEW.id, NEW.at_us, NEW.who, NEW.scope, NEW.verb, NEW.session,
    NEW.name, NEW.why, NEW.asked, NEW.before) IS NOT (OLD.id, OLD.at_us, OLD.who, OLD.scope, OLD.verb, OLD.session,
    OLD.name, OLD.why, OLD.asked, OLD.before)
BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
CREATE TRIGGER IF NOT EXISTS actions_stay_there BEFORE DELETE ON actions
WHEN OLD.id > (SELECT max(id) FROM actions) - (SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'actions_kept')
    OR NOT EXISTS (SELECT 1 FROM meta WHERE key = 'actions_kept')
BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
CREATE TRIGGER IF NOT EXISTS actions_are_appended BEFORE INSERT ON actions
WHEN NEW.id <> -1 AND NEW.id <= (SELECT coalesce(max(id), 0) FROM actions)
BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
"""


class ServerState:
    """The file, opened. Thread-safe: one connection, one writer at a time."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        try:
            private_directories.make_trusted(directory, marked=True)
            path = directory / FILE
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            self._connection = apsw.Connection(str(path))
            self._connection.set_busy_timeout(_BUSY_MS)
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = FULL")
            self._connection.execute(_SCHEMA)
        except (OSError, apsw.Error) as error:
            hints = ["check that the directory beside the store is yours and writable"]
            raise StoreUnavailable(f"{directory}: the server's file cannot be opened: {error}", hints=hints) from None
        self._lock = threading.RLock()

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Read, or write one statement. A text is written without secrets: callers, reasons and answers of others."""
        if not statement.startswith("SELECT"):
            values = [redactor().text(value) if type(value) is str else value for value in values]
        with self._lock:
            try:
                return list(self._connection.execute(statement, values))
            except apsw.Error as error:
                raise StoreUnavailable(f"{self.directory / FILE}: {error}") from None

    def run(self, statement: str, values: Sequence[Any] = ()) -> int:
        """Write; how many rows it changed."""
        with self._lock:
            self.rows(statement, values)
            return self._connection.changes()

    @contextmanager
    def together(self) -> Iterator[None]:
        """Several statements as one. Written from the first on: what it read another server has not changed since."""
        with self._lock:
            self.rows("BEGIN IMMEDIATE")
            try:
                yield
                self.rows("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self.rows("ROLLBACK")
                raise

    def meta(self, key: str) -> str | None:
        """A remembered value."""
        found = self.rows("SELECT value FROM meta WHERE key = ?", (key,))
        return str(found[0][0]) if found else None

    def remember(self, key: str, value: str) -> None:
        """Keep a value."""
        self.rows("INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value", (key, value))

    def close(self) -> None:
        """Give the file back."""
        with self._lock:
            self._connection.close()
