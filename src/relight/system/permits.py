"""A semaphore that loses no permit to an exception raised by a signal handler.

A counting semaphore can be decremented and then interrupted before its caller's next line, which leaks the permit. Here
a permit is an object: it is free again when it is released or garbage collected. Waiters are woken by a release, and
poll, because garbage collection wakes no waiter.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections import deque
from contextlib import suppress
from types import TracebackType
from typing import Any, Final

POLL_SECONDS: Final = 0.1


class Permit:
    """One permit, held until the end of its `with` block, or until it is garbage collected."""

    __slots__ = ("__weakref__", "_owner")

    def __init__(self, owner: Permits) -> None:
        self._owner = owner

    def __enter__(self) -> Permit:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def release(self) -> None:
        """Free the permit for another thread. Idempotent."""
        self._owner._free(weakref.ref(self))


class Permits:
    """A pool of `limit` permits. Thread-safe."""

    def __init__(self, limit: int) -> None:
        self._numbers = range(limit)
        self._held: dict[int, weakref.ref[Any]] = {}
        self._lock = threading.Lock()
        """guards `_held`"""
        self._waiting: deque[threading.Lock] = deque()

    def take(self) -> Permit:
        """A permit; waits until one is free."""
        found = self.take_within(None)
        assert found is not None
        return found

    def take_within(self, seconds: float | None) -> Permit | None:
        """A permit; None if none became free in so many seconds."""
        mine = Permit(self)
        if self._take(mine):
            return mine
        deadline = time.monotonic() + seconds if seconds is not None else None
        while deadline is None or time.monotonic() < deadline:
            call = threading.Lock()
            call.acquire()
            self._waiting.append(call)
            # Tried again after we are visible as a waiter: a release just before that woke no one.
            if self._take(mine):
                self._wake()
                return mine
            call.acquire(timeout=POLL_SECONDS)
            if self._take(mine):
                return mine
        return None

    def _take(self, mine: Permit) -> bool:
        ref = weakref.ref(mine)
        with self._lock:
            for number in self._numbers:
                holder = self._held.get(number)
                if holder is None or holder() is None:
                    self._held[number] = ref
                    return True
            return False

    def _free(self, ref: weakref.ref[Any]) -> None:
        with self._lock:
            for number, holder in self._held.items():
                if holder is ref:
                    del self._held[number]
                    break
        self._wake()

    def _wake(self) -> None:
        while self._waiting:
            with suppress(IndexError, RuntimeError):
                self._waiting.popleft().release()
                return
