"""A copy of the database file as it is at one moment. Writers are not blocked."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import apsw

from relight.stores.sqlite.connection import files
from relight.stores.sqlite.connection.database import Database
from relight.stores.sqlite.connection.driver import BUSY_SECONDS, store_error
from relight.stores.sqlite.statements import SQL
from relight.system.durable import sync_file
from relight.system.sqlite import WaitingConnection

PAGES: Final = 1024
"""copied at once"""


def backup(database: Database, path: Path, progress: Callable[[int, int], object]) -> None:
    """Copy the database into a new file, durable on return."""
    try:
        source = database.connect_reader()
        try:
            # The read transaction is kept to the end: all pieces are of one state, and no commit makes SQLite begin
            # again. Writers do not wait for it; only the log cannot be truncated meanwhile.
            source.execute(SQL["begin_reading"])
            source.execute(SQL["user_version"]).get  # noqa: B018  the first read fixes the state
            _copy(source, path, progress)
        finally:
            source.close()
    except apsw.Error as error:
        raise store_error(error, str(path)) from None


def _copy(source: apsw.Connection, path: Path, progress: Callable[[int, int], object]) -> None:
    files.prepare(path)
    copy = WaitingConnection(path, busy_seconds=BUSY_SECONDS)
    try:
        with copy.backup("main", source, "main") as running:
            while not running.done:
                running.step(PAGES)
                progress(running.page_count - running.remaining, running.page_count)
    finally:
        copy.close()
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        sync_file(descriptor)
    finally:
        os.close(descriptor)
