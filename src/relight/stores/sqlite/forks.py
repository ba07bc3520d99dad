"""fork() and open databases do not go together: a child must not use, and not even close, what its parent opened.

So every open store gives its connections back just before a fork, and both sides open new ones when they next need
them. `subprocess` does not come through here: it executes another program at once.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Resting(Protocol):
    """What can give its connections back for a moment."""

    def rest(self) -> None:
        """Wait for whoever is using one, close them all, and let nobody open one until `wake`."""
        ...

    def wake(self) -> None:
        """Go on, in the parent and in the child."""
        ...


_open: weakref.WeakSet[Resting] = weakref.WeakSet()
_resting: list[Resting] = []


def register(store: Resting) -> None:
    """From now on it rests during a fork."""
    _open.add(store)


def unregister(store: Resting) -> None:
    """It is closed for good."""
    _open.discard(store)


def _before() -> None:
    for store in list(_open):
        store.rest()
        _resting.append(store)


def _after() -> None:
    while _resting:
        _resting.pop().wake()


os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after)
