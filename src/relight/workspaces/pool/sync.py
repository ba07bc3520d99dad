"""Sync of many descriptors in parallel, which lets them share one commit of the file system's journal.

The threads are kept: starting and joining eight threads takes longer than the syncs. They are daemons and hold no
state, so a process may exit without them, and a forked child starts its own.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Sequence
from typing import Final

from relight.system.durable import sync_file

SYNCERS: Final = 8


class _Batch:
    """A batch of descriptors, and how many of them are not synced yet."""

    def __init__(self, fds: Sequence[int]) -> None:
        self._left = len(fds)
        self._lock = threading.Lock()
        self.ended = threading.Event()
        self.error: OSError | None = None

    def sync(self, fd: int) -> None:
        try:
            sync_file(fd)
        except OSError as error:
            self.error = error
        with self._lock:
            self._left -= 1
            if not self._left:
                self.ended.set()


class _Syncers:
    """The threads, started when needed."""

    def __init__(self) -> None:
        self._waiting: queue.SimpleQueue[tuple[_Batch, int]] = queue.SimpleQueue()
        self._count = 0
        self._lock = threading.Lock()

    def sync(self, fds: Sequence[int]) -> None:
        with self._lock:
            while self._count < min(len(fds) - 1, SYNCERS):
                threading.Thread(target=self._work, name="relight-sync", daemon=True).start()
                self._count += 1
        batch = _Batch(fds)
        for fd in fds[1:]:
            self._waiting.put((batch, fd))
        batch.sync(fds[0])
        batch.ended.wait()
        if batch.error is not None:
            raise batch.error

    def _work(self) -> None:
        while True:
            batch, fd = self._waiting.get()
            batch.sync(fd)


_own = {os.getpid(): _Syncers()}
"""by process id: a forked child has none of its parent's threads"""


def sync_all(fds: Sequence[int]) -> None:
    """Sync all of them; raises the error of one that failed."""
    if len(fds) <= 1:
        for fd in fds:
            sync_file(fd)
        return
    pid = os.getpid()
    syncers = _own.get(pid)
    if syncers is None:
        syncers = _own.setdefault(pid, _Syncers())
    syncers.sync(fds)
