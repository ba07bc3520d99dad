"""Permits: at most so many at a time, and none is ever lost.

A semaphore counts, and an exception from a signal handler between its counting and its caller's next line leaves it
counting somebody who is not there. Here a permit is an object: it is free again when it is given back, or when nobody
has it any more. Who waits is woken where somebody gives back, and looks by itself now and then.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections import deque
from contextlib import suppress
from types import TracebackType
from typing import Any, Final

LOOK_SECONDS: Final = 0.1


class Permit:
    """One of them, until the end of its `with` block, or of its life."""

    __slots__ = ("__weakref__", "_owner")

    def __init__(self, owner: Permits) -> None:
        self._owner = owner

    def __enter__(self) -> Permit:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.give_back()

    def give_back(self) -> None:
        """Somebody else may have it. Twice is no harm."""
        self._owner._free(weakref.ref(self))


class Permits:
    """Thread-safe."""

    def __init__(self, most: int) -> None:
        self._numbers = range(most)
        self._held: dict[int, weakref.ref[Any]] = {}
        self._swap = threading.Lock()
        """around every change of what is held, and nothing else"""
        self._waiting: deque[threading.Lock] = deque()

    def take(self) -> Permit:
        """One of them; waits until one is free."""
        found = self.take_within(None)
        assert found is not None
        return found

    def take_within(self, seconds: float | None) -> Permit | None:
        """One of them; None where none was free for so long."""
        mine = Permit(self)
        if self._take(mine):
            return mine
        deadline = time.monotonic() + seconds if seconds is not None else None
        while deadline is None or time.monotonic() < deadline:
            call = threading.Lock()
            call.acquire()
            self._waiting.append(call)
            if self._take(mine):  # given back before it could be seen that somebody waits
                self._wake()
                return mine
            call.acquire(timeout=LOOK_SECONDS)
            if self._take(mine):
                return mine
        return None

    def _take(self, mine: Permit) -> bool:
        ref = weakref.ref(mine)
        with self._swap:
            for number in self._numbers:
                holder = self._held.get(number)
                if holder is None or holder() is None:
                    self._held[number] = ref
                    return True
            return False

    def _free(self, ref: weakref.ref[Any]) -> None:
        with self._swap:
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
