"""The floor: the least any SQLite store could do for the same durability, WAL with synchronous=FULL."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any

import apsw


class RawInsert:
    """One INSERT of the message as JSON text, one commit."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.connection = apsw.Connection(str(path))
        for pragma in ("journal_mode=wal", "synchronous=full"):
            self.connection.execute(f"pragma {pragma}").fetchall()
        self.connection.execute(
            "create table if not exists rows(session text, seq integer, body text, primary key(session, seq))"
        )
        self._seq = 0

    def save(self, message: dict[str, Any], session: str = "s") -> float:
        """Seconds one durable save takes."""
        started = time.perf_counter()
        self._seq += 1
        self.connection.execute("insert into rows values(?,?,?)", (session, self._seq, json.dumps(message)))
        return time.perf_counter() - started

    def load(self) -> list[Any]:
        """All messages, as a resume would read them."""
        rows = self.connection.execute("select body from rows where session='s' order by seq")
        return [json.loads(body) for (body,) in rows]

    def close(self) -> None:
        """Close, so that the log is folded into the file."""
        self.connection.close()


class _Waiting:
    """One row on its way."""

    __slots__ = ("done", "row")

    def __init__(self, row: tuple[str, int, str]) -> None:
        self.row = row
        self.done = threading.Lock()
        self.done.acquire()


class RawGrouped:
    """The same INSERT for many threads: whoever gets the lock commits the rows of all who wait, in one transaction."""

    def __init__(self, path: Path) -> None:
        self._raw = RawInsert(path)
        self._lock = threading.Lock()
        self._line: deque[_Waiting] = deque()

    def save(self, message: dict[str, Any], session: str, seq: int) -> None:
        """One durable save; returns when somebody has committed it."""
        mine = _Waiting((session, seq, json.dumps(message)))
        self._line.append(mine)
        with self._lock:
            if mine.done.acquire(blocking=False):
                return
            group = [self._line.popleft() for _ in range(len(self._line))]
            with self._raw.connection:
                for waiting in group:
                    self._raw.connection.execute("insert into rows values(?,?,?)", waiting.row)
            for waiting in group:
                waiting.done.release()

    def close(self) -> None:
        """Close, so that the log is folded into the file."""
        self._raw.close()
