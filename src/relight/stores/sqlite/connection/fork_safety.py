"""Closes SQLite connections around fork(): a child must not use, nor even close, what its parent opened.

Every open store closes its connections just before a fork, and both sides open new ones when they next need them.
`subprocess` is not affected: it executes another program at once.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Protocol


class Suspendable(Protocol):
    """A store that can close its connections for the time of a fork."""

    def suspend(self) -> None:
        """Wait until no connection is in use, close them all, and let no thread open one until `resume`."""
        ...

    def resume(self) -> None:
        """In the parent: allow connections again."""
        ...

    def resume_in_child(self) -> None:
        """In the child: allow connections again, without the threads that waited for one in the parent."""
        ...


class _ForkHandlers:
    """One fork at a time: two would wait for each other's stores."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._suspended: list[Suspendable] = []

    def before(self) -> None:
        self._lock.acquire()
        for store in list(_open):
            store.suspend()
            self._suspended.append(store)

    def in_parent(self) -> None:
        while self._suspended:
            self._suspended.pop().resume()
        self._lock.release()

    def in_child(self) -> None:
        while self._suspended:
            self._suspended.pop().resume_in_child()
        self._lock = threading.Lock()


_open: weakref.WeakSet[Suspendable] = weakref.WeakSet()
_forks = _ForkHandlers()


def register(store: Suspendable) -> None:
    """Suspend this store during forks, until `unregister`."""
    _open.add(store)


def unregister(store: Suspendable) -> None:
    """Stop doing so: the store is closed."""
    _open.discard(store)


os.register_at_fork(before=_forks.before, after_in_parent=_forks.in_parent, after_in_child=_forks.in_child)
