"""Whose turn it is to write: one thread at a time, in the order they came, and the one whose turn it is may take
along the work of those behind it.

The turn is handed over, not fought for: whoever leaves wakes the one who waits longest. Those whose work was taken
along are woken a little later and one by the other, because thirty threads that wake at once only stand in each
other's way: the next writer wakes the first of them just before it waits for the disk (`wake`).

A signal handler may raise between any two lines of this file. So nothing is held that only a local variable knows of:
the turn belongs to a place, by a weak reference. Whoever is interrupted leaves by `leave`, which may be done twice;
where even that was interrupted, the turn is free once the place is gone or its thread asks again, and those who wait
look for that now and then. No interruption makes anybody wait for ever, or write what somebody else has written.

A place that asks to be `alone` is never taken along and takes nobody along. What the work is, nobody here knows.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any, Final

LOOK_SECONDS: Final = 0.5
"""how often who waits looks whether it waits for somebody who was interrupted"""


class Orphaned(Exception):
    """Whoever had taken this work along was interrupted more than once: nobody knows what became of it."""


class Waiter:
    """A place in the line."""

    __slots__ = ("__weakref__", "alone", "gave_up", "is_served", "leader", "ref", "thread", "told", "wakes")

    def __init__(self, *, alone: bool = False) -> None:
        self.alone = alone
        self.is_served = False
        """its work was done by another"""
        self.gave_up = False
        """its thread has gone on: nobody may take it along any more"""
        self.told: threading.Lock | None = None
        """held while its thread sleeps"""
        self.wakes: Waiter | None = None
        """whom its thread wakes once it is awake"""
        self.leader: weakref.ref[Any] | None = None
        """who has taken it along"""
        self.thread = threading.get_ident()
        self.ref: weakref.ref[Any] = weakref.ref(self)


class WriterQueue:
    """The line, and the turn."""

    def __init__(self) -> None:
        self._holder: weakref.ref[Any] | None = None
        self._swap = threading.Lock()
        """around every change of the holder, and nothing else"""
        self._line: deque[Waiter] = deque()
        self._moving: Waiter | None = None
        """on its way out of the line; only who has the turn touches it"""
        self._served: Waiter | None = None
        """the first of those whose work is done and whose threads still sleep; only who has the turn touches it"""

    def holds(self, mine: Waiter) -> bool:
        """Is it this one's turn?"""
        return self._holder is mine.ref

    def enter(self, mine: Waiter) -> bool:
        """Wait. True: the turn is mine. False: somebody before me has done my work too. Orphaned: nobody knows."""
        try:
            return self._entered(mine)
        except BaseException:
            self._give_up(mine)
            raise

    def _entered(self, mine: Waiter) -> bool:
        if self._take(mine):
            return True
        told = mine.told = threading.Lock()
        told.acquire()
        self._line.append(mine)
        if self._take(mine):  # the last one may have left before it could see us
            self.leave(mine)
        while not told.acquire(timeout=LOOK_SECONDS):
            if self._is_over(mine):
                break
        _tell(mine.wakes)
        return self.holds(mine)

    def _is_over(self, mine: Waiter) -> bool:
        """Nobody has said anything for a while: is there anything to wait for?"""
        if self.holds(mine):
            with suppress(ValueError):
                self._line.remove(mine)
            return True
        if mine in self._line:
            if self._take(mine):
                self.leave(mine)
            return False
        if self._is_led(mine):
            return False
        if mine.is_served or self.holds(mine):
            return True
        raise Orphaned

    def _is_led(self, mine: Waiter) -> bool:
        """Is somebody at work who has taken it along?"""
        return mine.leader is not None and self._holder is mine.leader and mine.leader() is not None

    def _give_up(self, mine: Waiter) -> None:
        """Interrupted. Work that was taken along already is waited for: whoever asks later what became of it must not
        ask before it is written."""
        mine.gave_up = True
        with suppress(ValueError):
            self._line.remove(mine)
        is_told = mine.told is None
        while not is_told and not mine.is_served and self._is_led(mine):
            try:
                is_told = mine.told is None or mine.told.acquire(timeout=LOOK_SECONDS)
            except BaseException:  # interrupted again while it raises already: somebody is on the way to tell it
                is_told = False
        if mine.is_served:
            _tell(mine.wakes)
        self.leave(mine)

    def companions(self, mine: Waiter, group: list[Any], most: int) -> None:
        """Take those behind the one whose turn it is out of the line, for `leave` or `put_back`, until there are so
        many in the group."""
        while len(group) < most and self._line:
            try:
                one = self._line[0]
                if one.alone:
                    return
                one.leader, self._moving = mine.ref, one
                self._line.remove(one)
            except (IndexError, ValueError):  # it has just given up
                continue
            if not one.gave_up:
                group.append(one)

    def put_back(self, companions: Sequence[Waiter]) -> None:
        """They were not served; they keep their places at the front."""
        for one in companions:
            one.leader = None
        self._line.extendleft([one for one in reversed(companions) if not one.gave_up])

    def wake(self) -> None:
        """Begin to wake those whom the one before has served."""
        if self._served is not None:
            first, self._served = self._served, None
            _tell(first)

    def leave(self, mine: Waiter, served: Sequence[Waiter] = ()) -> None:
        """Hand the turn to whoever waits longest; nothing where it is not mine. Who is interrupted in it does it again.

        Each round ends with a sleeper woken, or with a turn that is free while nobody waits.
        """
        if not self.holds(mine):
            return
        moving = self._moving
        if moving is not None and moving not in served and moving not in self._line and not moving.is_served:
            self.put_back([moving])  # interrupted between the line and the group
        self._moving = None
        self.wake()
        if served:
            for one in served:
                one.is_served = True
            for one, next_one in pairwise(served):
                one.wakes = next_one
            self._served = served[0]
        while True:
            try:
                heir = self._line[0]
            except IndexError:
                self.wake()
                if not self._pass(mine.ref, None) or not self._line or not self._take(mine):
                    return
                continue
            if not self._pass(mine.ref, heir.ref):
                return
            try:
                self._line.remove(heir)
            except ValueError:  # it has just given up
                if self._pass(heir.ref, mine.ref):
                    continue
                return
            _tell(heir)
            return

    def _take(self, mine: Waiter) -> bool:
        """Where nobody has the turn, or one who was interrupted: it is gone, or it was this very thread's."""
        holder = self._holder
        if holder is not None:
            place = holder()
            if place is not None and (place is mine or place.thread != mine.thread):
                return False
        return self._pass(holder, mine.ref)

    def _pass(self, giver: weakref.ref[Any] | None, taker: weakref.ref[Any] | None) -> bool:
        with self._swap:
            if self._holder is not giver:
                return False
            self._holder = taker
            return True


def _tell(place: Waiter | None) -> None:
    if place is not None and place.told is not None:
        with suppress(RuntimeError):  # it was told before
            place.told.release()
