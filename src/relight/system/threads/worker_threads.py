"""A pool of threads that a signal handler may interrupt anywhere: see calls.py."""

from __future__ import annotations

import _thread
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final

from relight.system.threads.calls import taken

EXIT_SECONDS: Final = 5.0
"""how long an exiting process waits for functions that have begun"""
_POLL_SECONDS: Final = 0.005


class WorkerThreads:
    """At most so many threads, started when they are needed, which run functions in the order in which they came."""

    def __init__(self, name: str, limit: int) -> None:
        self._name, self._limit = name, limit
        self._queue: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self._unstarted: list[None] = [None] * limit
        self._idle: list[None] = []
        self._busy: list[None] = []
        self._is_closed = False

    def submit(self, run: Callable[[], object]) -> None:
        """Have it run; it must not raise. RuntimeError if the process ends, or can have no thread."""
        if self._is_closed:
            raise RuntimeError("the process ends")
        self._queue.put(run)
        # Interrupted before the next line, the list names one idle thread too many: a later function may then wait for
        # a thread that is busy, never for one that does not exist.
        if taken(self._idle) or not taken(self._unstarted):
            return
        try:
            _thread.start_new_thread(self._work, ())
        except BaseException:
            self._unstarted.append(None)
            if len(self._unstarted) >= self._limit:  # no thread is there that will run it
                raise

    def close(self) -> None:
        """The process ends: let those that run, and those that wait for them, end."""
        self._is_closed = True
        end = time.monotonic() + EXIT_SECONDS
        while (self._busy or not self._queue.empty()) and time.monotonic() < end:
            time.sleep(_POLL_SECONDS)

    def _work(self) -> None:
        threading.current_thread().name = self._name
        try:
            while True:
                run = self._queue.get()
                self._busy.append(None)
                try:
                    run()
                finally:
                    del run  # an idle thread keeps nothing alive
                    self._busy.pop()
                self._idle.append(None)
        finally:
            self._unstarted.append(None)
