"""Whose turn it is to write: one thread at a time, in the order they came, and the one whose turn it is may take
along the work of those behind it.

The turn is handed over, not fought for: whoever leaves wakes the one who waits longest. Those whose work was taken
along are woken a little later and one by the other, because thirty threads that wake at once only stand in each
other's way: the next writer wakes the first of them just before it waits for the disk (`wake`).

A place that asks to be `alone` is never taken along and takes nobody along. What the work is, nobody here knows.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from itertools import pairwise


class Place:
    """A place in the line."""

    __slots__ = ("alone", "has_turn", "told", "wakes")

    def __init__(self, *, alone: bool = False) -> None:
        self.alone = alone
        self.has_turn = False
        self.told: threading.Lock | None = None
        """held while its thread sleeps"""
        self.wakes: Place | None = None
        """whom its thread wakes once it is awake"""


class Turns:
    """The line, and the turn."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._line: deque[Place] = deque()
        self._served: Place | None = None
        """the first of those whose work is done and whose threads still sleep; only who has the turn touches it"""

    def enter(self, mine: Place) -> bool:
        """Wait. True: the turn is mine. False: somebody before me has done my work too."""
        if self._turn.acquire(blocking=False):
            return True
        told = mine.told = threading.Lock()
        told.acquire()
        self._line.append(mine)
        if self._turn.acquire(blocking=False):  # the last one may have left before it could see us
            self.leave(())
        try:
            told.acquire()
        except BaseException:
            self._give_up(mine, told)
            raise
        _tell(mine.wakes)
        return mine.has_turn

    def _give_up(self, mine: Place, told: threading.Lock) -> None:
        """Interrupted while waiting. Work that was taken along already is done, and nobody hears of it."""
        try:
            self._line.remove(mine)
        except ValueError:
            _acquire_at_last(told)  # taken along, or given the turn: both are told soon
            _tell(mine.wakes)
            if mine.has_turn:
                self.leave(())

    def companions(self, most: int) -> list[Place]:
        """Those behind the one whose turn it is, up to `most`, taken out of the line for `leave` or `put_back`."""
        line = self._line
        taken: list[Place] = []
        while line and len(taken) < most and not line[0].alone:
            taken.append(line.popleft())
        return taken

    def put_back(self, companions: Sequence[Place]) -> None:
        """They were not served; they keep their places at the front."""
        self._line.extendleft(reversed(companions))

    def wake(self) -> None:
        """Begin to wake those whom the one before has served."""
        if self._served is not None:
            first, self._served = self._served, None
            _tell(first)

    def leave(self, served: Sequence[Place]) -> None:
        """Hand the turn to whoever waits longest. Each round ends with a sleeper woken, or with a turn that is free
        while nobody waits."""
        self.wake()
        if served:
            for one, next_one in pairwise(served):
                one.wakes = next_one
            self._served = served[0]
        while True:
            if self._line:
                heir = self._line.popleft()
                heir.has_turn = True
                _tell(heir)
                return
            self.wake()
            self._turn.release()
            if not self._line or not self._turn.acquire(blocking=False):
                return


def _tell(place: Place | None) -> None:
    if place is not None and place.told is not None:
        place.told.release()


def _acquire_at_last(lock: threading.Lock) -> None:
    """Acquire, however often the thread is interrupted meanwhile: somebody is already on the way to release it."""
    acquired = False
    while not acquired:
        try:
            acquired = lock.acquire()
        except BaseException:
            acquired = False
