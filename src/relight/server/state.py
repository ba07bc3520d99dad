"""The server's own state, in one small SQLite file beside the store: tokens, responses, audit log, callbacks.

It holds nothing about sessions. If it is deleted, tokens and logins, stored responses, the audit log and pending
callbacks are lost, and no session. Each write is synced. Several servers, and `relight token`, may share the file.

The audit log is append-only by triggers: an entry is inserted as begun, its outcome is written once, and only the
oldest beyond the limit can be deleted. That protects against mistakes and injected statements, not against the owner
of the file.
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
from relight.system.durable import NEEDS_FULL_SYNC
from relight.system.environment_secrets import redactor
from relight.system.sqlite import WaitingConnection

FILE: Final = "server.db"
_BUSY_SECONDS: Final = 30.0
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
    """The open state file. Thread-safe: one connection under a lock."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        try:
            private_directories.make_trusted(directory, marked=True)
            path = directory / FILE
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            self._connection = WaitingConnection(path, busy_seconds=_BUSY_SECONDS)
            self._connection.set_wal()
            self._connection.execute("PRAGMA synchronous = FULL")
            if NEEDS_FULL_SYNC:
                self._connection.execute("PRAGMA fullfsync = ON; PRAGMA checkpoint_fullfsync = ON")
            self._connection.execute(_SCHEMA)
        except (OSError, apsw.Error) as error:
            hints = ["check that you own the directory and can write to it"]
            raise StoreUnavailable(f"{directory}: cannot open the server's state file: {error}", hints=hints) from None
        self._lock = threading.RLock()

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one statement; its rows. Written texts are redacted: names, reasons and responses may hold secrets."""
        if not statement.startswith("SELECT"):
            values = [redactor().text(value) if type(value) is str else value for value in values]
        with self._lock:
            try:
                return list(self._connection.execute(statement, values))
            except apsw.Error as error:
                raise StoreUnavailable(f"{self.directory / FILE}: {error}") from None

    def run(self, statement: str, values: Sequence[Any] = ()) -> int:
        """Run one statement; the number of rows it changed."""
        with self._lock:
            self.rows(statement, values)
            return self._connection.changes()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run the statements of a block in one transaction."""
        with self._lock:
            # IMMEDIATE: with a deferred transaction another server could write between our read and our write.
            self.rows("BEGIN IMMEDIATE")
            try:
                yield
                self.rows("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self.rows("ROLLBACK")
                raise

    def meta(self, key: str) -> str | None:
        """The value stored under a key; None if there is none."""
        found = self.rows("SELECT value FROM meta WHERE key = ?", (key,))
        return str(found[0][0]) if found else None

    def set_meta(self, key: str, value: str) -> None:
        """Store a value under a key."""
        self.rows("INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value", (key, value))

    def close(self) -> None:
        with self._lock:
            self._connection.close()
