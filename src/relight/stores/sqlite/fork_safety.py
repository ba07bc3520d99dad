"""fork() and open databases do not go together: a child must not use, and not even close, what its parent opened.

So every open store gives its connections back just before a fork, and both sides open new ones when they next need
them. A child begins with an empty line: whoever waits for a turn at that moment is a thread that it does not have.
`subprocess` does not come through here: it executes another program at once.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Protocol


class SuspendedStores(Protocol):
    """What can give its connections back for a moment."""

    def rest(self) -> None:
        """Wait for whoever is using one, close them all, and let nobody open one until `wake`."""
        ...

    def wake(self) -> None:
        """In the parent: go on."""
        ...

    def begin_anew(self) -> None:
        """In the child: go on, without anybody who waited."""
        ...


class _Forks:
    """One fork at a time: two would wait for each other's stores."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._resting: list[SuspendedStores] = []

    def before(self) -> None:
        self._lock.acquire()
        for store in list(_open):
            store.rest()
            self._resting.append(store)

    def in_parent(self) -> None:
        while self._resting:
            self._resting.pop().wake()
        self._lock.release()

    def in_child(self) -> None:
        while self._resting:
            self._resting.pop().begin_anew()
        self._lock = threading.Lock()


_open: weakref.WeakSet[SuspendedStores] = weakref.WeakSet()
_forks = _Forks()


def register(store: SuspendedStores) -> None:
    """From now on it rests during a fork."""
    _open.add(store)


def unregister(store: SuspendedStores) -> None:
    """It is closed for good."""
    _open.discard(store)


os.register_at_fork(before=_forks.before, after_in_parent=_forks.in_parent, after_in_child=_forks.in_child)
