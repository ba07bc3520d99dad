"""A lock per session, shared by the threads of one process.

Not striped: a thread may hold its lock for as long as a server lets it wait for a row, and with stripes a session would
wait for another one whose name has the same hash.
"""

from __future__ import annotations

import threading
from weakref import WeakValueDictionary


class SessionLocks:
    """Hands out one lock per session; a lock that nobody holds or waits for is garbage collected. Thread-safe."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, threading.Lock] = WeakValueDictionary()
        self._guard = threading.Lock()

    def of(self, session: str) -> threading.Lock:
        """The session's lock. Use it in one expression, `with locks.of(session):`, which keeps it alive."""
        lock = self._locks.get(session)
        if lock is None:
            with self._guard:
                lock = self._locks.get(session)  # another thread may have made it since
                if lock is None:
                    lock = self._locks[session] = threading.Lock()
        return lock

    def __len__(self) -> int:
        return len(self._locks)
