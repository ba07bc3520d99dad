"""A lock per session, shared by the threads of one process.

Not striped: a thread may hold its lock for as long as a server lets it wait for a row, and with stripes a session would
wait for another one whose name has the same hash.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Final
from weakref import WeakValueDictionary

MAX_KEPT: Final = 4096
"""free locks that are kept: creating one costs more than the rest of this module, and each step would create one"""


class SessionLocks:
    """Hands out one lock per session. Of those that no thread holds or waits for, the newest are kept. Thread-safe."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, threading.Lock] = WeakValueDictionary()
        self._guard = threading.Lock()
        self._kept: deque[threading.Lock] = deque(maxlen=MAX_KEPT)

    def of(self, session: str) -> threading.Lock:
        """The session's lock. Use it in one expression, `with locks.of(session):`, which keeps it alive."""
        lock = self._locks.get(session)
        if lock is None:
            with self._guard:
                lock = self._locks.get(session)  # another thread may have made it since
                if lock is None:
                    lock = self._locks[session] = threading.Lock()
                    self._kept.append(lock)
        return lock

    def __len__(self) -> int:
        return len(self._locks)
