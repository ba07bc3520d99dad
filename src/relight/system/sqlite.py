"""Connections to SQLite that wait for every lock, up to their busy timeout.

SQLite asks its busy handler only when a statement begins a transaction. In these cases it answers SQLITE_BUSY at once,
although another process holds the lock only for a moment:

- a checkpoint of any mode, while another process makes one;
- a checkpoint of any mode, SQLITE_CHECKPOINT_NOOP included, that reads the header of the log's index while another
  process commits: the two copies of the header differ then, and reading them again needs the lock of the writer;
- the switch to WAL mode, for one of two processes that create a database at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

import apsw

_T = TypeVar("_T")
_RETRY_SECONDS: Final = 0.005
_READ_WRITE: Final = apsw.SQLITE_OPEN_READWRITE


class WaitingConnection(apsw.Connection):
    """A connection to an existing database on which nothing fails for a lock before the busy timeout is over."""

    def __init__(
        self, where: str | Path, *, busy_seconds: float, flags: int = _READ_WRITE, statements: int = 64
    ) -> None:
        super().__init__(str(where), flags=flags, statementcachesize=statements)
        self.set_busy_timeout(round(busy_seconds * 1000))

    def set_busy_timeout(self, milliseconds: int, /) -> None:
        super().set_busy_timeout(milliseconds)
        self._busy_seconds = milliseconds / 1000

    def wal_checkpoint(self, dbname: str | None = None, mode: int = apsw.SQLITE_CHECKPOINT_PASSIVE) -> tuple[int, int]:
        checkpoint = super().wal_checkpoint
        return self._wait(lambda: checkpoint(dbname, mode))

    def set_wal(self) -> bool:
        """Switch to WAL mode, in which readers and the writer never wait for one another; False if the file system
        does not allow it."""
        return self._wait(lambda: bool(self.execute("PRAGMA journal_mode = WAL").get == "wal"))

    def _wait(self, act: Callable[[], _T]) -> _T:
        deadline = time.monotonic() + self._busy_seconds
        while True:
            try:
                return act()
            except apsw.BusyError:
                if time.monotonic() >= deadline:
                    raise
            time.sleep(_RETRY_SECONDS)
