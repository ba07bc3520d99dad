"""Writer queue with leader/follower group commit: one writer at a time, in order of arrival.

The waiter that gets the write lock is the leader: it may take the waiters behind it out of the queue and do their work
in its own transaction. A waiter with `exclusive` set is never taken as a follower and takes none. What the work is,
this module does not know.

A signal handler may raise between any two lines of this file, so the lock is not a `threading.Lock` that only a local
variable knows of: it belongs to a `Waiter`, by weak reference. An interrupted thread releases it with `leave`, which is
idempotent; if even that is interrupted, the lock counts as free once the waiter is garbage or its thread asks again,
and waiting threads poll for that. So an interruption never leaves a thread waiting forever, and never lets two write.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any, Final

POLL_INTERVAL_SECONDS: Final = 0.5
"""how often a waiting thread checks whether the holder was interrupted and will never wake it"""


class LeaderLost(Exception):
    """The leader that took this work was interrupted twice: whether the work was done is unknown."""


class Waiter:
    """One thread's request to write."""

    __slots__ = ("__weakref__", "abandoned", "exclusive", "is_served", "leader", "ref", "thread", "wakes", "wakeup")

    def __init__(self, *, exclusive: bool = False) -> None:
        self.exclusive = exclusive
        self.is_served = False
        """a leader did its work"""
        self.abandoned = False
        """its thread was interrupted: no leader may take it any more"""
        self.wakeup: threading.Lock | None = None
        """held while its thread sleeps; releasing it wakes the thread"""
        self.wakes: Waiter | None = None
        """the waiter that its thread wakes"""
        self.leader: weakref.ref[Any] | None = None
        """the waiter that took it as a follower"""
        self.thread = threading.get_ident()
        self.ref: weakref.ref[Any] = weakref.ref(self)


class WriterQueue:
    """The queue of waiters and the write lock they wait for."""

    def __init__(self) -> None:
        self._holder: weakref.ref[Any] | None = None
        self._swap = threading.Lock()
        """makes compare-and-set of the holder atomic; held for nothing else"""
        self._waiting: deque[Waiter] = deque()
        self._in_transit: Waiter | None = None
        """being moved from the queue into a group; only the holder touches it"""
        self._first_served: Waiter | None = None
        """first of the followers whose work is done and whose threads still sleep; only the holder touches it"""

    def holds(self, mine: Waiter) -> bool:
        """True if this waiter has the write lock."""
        return self._holder is mine.ref

    def enter(self, mine: Waiter) -> bool:
        """Wait. True: the write lock is mine. False: a leader has done my work. LeaderLost: the outcome is unknown."""
        try:
            return self._wait(mine)
        except BaseException:
            self._abandon(mine)
            raise

    def _wait(self, mine: Waiter) -> bool:
        if self._try_acquire(mine):
            return True
        wakeup = mine.wakeup = threading.Lock()
        wakeup.acquire()
        self._waiting.append(mine)
        # We appended after the holder may have seen an empty queue and released the lock; then no thread would wake us.
        # Acquiring and leaving at once wakes the first in the queue, which may be us.
        if self._holder is None and self._try_acquire(mine):
            self.leave(mine)
        while not wakeup.acquire(timeout=POLL_INTERVAL_SECONDS):
            if self._recheck(mine):
                break
        _wake(mine.wakes)
        return self.holds(mine)

    def _recheck(self, mine: Waiter) -> bool:
        """After a poll interval without a wakeup: is there nothing left to wait for?"""
        if self.holds(mine):
            with suppress(ValueError):
                self._waiting.remove(mine)
            return True
        if mine in self._waiting:
            if self._try_acquire(mine):
                self.leave(mine)
            return False
        if self._has_leader(mine):
            return False
        if mine.is_served or self.holds(mine):
            return True
        raise LeaderLost

    def _has_leader(self, mine: Waiter) -> bool:
        """True while the leader that took this waiter is still writing."""
        return mine.leader is not None and self._holder is mine.leader and mine.leader() is not None

    def _abandon(self, mine: Waiter) -> None:
        """Leave the queue because the thread was interrupted."""
        mine.abandoned = True
        with suppress(ValueError):
            self._waiting.remove(mine)
        # Work that a leader has taken already is waited for even now: the caller may ask `find_commit` next, and must
        # not get "absent" for a step that is about to be written.
        is_woken = mine.wakeup is None
        while not is_woken and not mine.is_served and self._has_leader(mine):
            try:
                is_woken = mine.wakeup is None or mine.wakeup.acquire(timeout=POLL_INTERVAL_SECONDS)
            except BaseException:  # interrupted again: the first exception is on its way, so keep waiting
                is_woken = False
        if mine.is_served:
            _wake(mine.wakes)
        self.leave(mine)

    def take_followers(self, mine: Waiter, group: list[Any], max_size: int) -> None:
        """Move waiters from the front of the queue into the leader's group, up to `max_size` of them."""
        while len(group) < max_size and self._waiting:
            try:
                one = self._waiting[0]
                if one.exclusive:
                    return
                # Named before it is removed: an interruption in between must not make it vanish. `leave` requeues it.
                one.leader, self._in_transit = mine.ref, one
                self._waiting.remove(one)
            except (IndexError, ValueError):  # its thread has abandoned it meanwhile
                continue
            if not one.abandoned:
                group.append(one)

    def requeue(self, followers: Sequence[Waiter]) -> None:
        """Return followers that were not served to the front of the queue, in their order."""
        for one in followers:
            one.leader = None
        self._waiting.extendleft([one for one in reversed(followers) if not one.abandoned])

    def wake_served(self) -> None:
        """Wake the first follower of the leader before this one; each follower wakes the next.

        Thirty threads that wake at once only compete for the interpreter lock. So the followers are woken one after the
        other, and only when the next leader is about to wait for the disk.
        """
        if self._first_served is not None:
            first, self._first_served = self._first_served, None
            _wake(first)

    def leave(self, mine: Waiter, served: Sequence[Waiter] = ()) -> None:
        """Hand the write lock to the first in the queue; nothing if it is not mine. May be repeated when
        interrupted."""
        if not self.holds(mine):
            return
        moving = self._in_transit
        if moving is not None and moving not in served and moving not in self._waiting and not moving.is_served:
            self.requeue([moving])  # interrupted between the queue and the group
        self._in_transit = None
        self.wake_served()
        if served:
            for one in served:
                one.is_served = True
            for one, next_one in pairwise(served):
                one.wakes = next_one
            self._first_served = served[0]
        # The lock is handed over, not freed and fought for: the successor becomes the holder before it is woken. Each
        # round either wakes a successor, or frees the lock with an empty queue, or retries because the queue changed.
        while True:
            try:
                successor = self._waiting[0] if self._waiting else None
            except IndexError:  # the last one has abandoned the queue
                successor = None
            if successor is None:
                self.wake_served()
                # Check the queue again after freeing the lock: a thread that appended itself in between has tried to
                # acquire before we freed it, and sleeps.
                if not self._transfer(mine.ref, None) or not self._waiting or not self._try_acquire(mine):
                    return
                continue
            if not self._transfer(mine.ref, successor.ref):
                return
            try:
                self._waiting.remove(successor)
            except ValueError:  # its thread has abandoned it: take the lock back and try the next
                if self._transfer(successor.ref, mine.ref):
                    continue
                return
            _wake(successor)
            return

    def _try_acquire(self, mine: Waiter) -> bool:
        """Acquire the lock if it is free or its holder is gone.

        The holder is gone if it is garbage, or if it belongs to this very thread: a thread that asks again has left
        its former request by an exception.
        """
        holder = self._holder
        if holder is not None:
            waiter = holder()
            if waiter is not None and (waiter is mine or waiter.thread != mine.thread):
                return False
        return self._transfer(holder, mine.ref)

    def _transfer(self, from_: weakref.ref[Any] | None, to: weakref.ref[Any] | None) -> bool:
        with self._swap:
            if self._holder is not from_:
                return False
            self._holder = to
            return True


def _wake(waiter: Waiter | None) -> None:
    if waiter is not None and waiter.wakeup is not None:
        try:  # once for each follower, and three calls cheaper than `suppress`
            waiter.wakeup.release()
        except RuntimeError:  # it was woken before
            return
