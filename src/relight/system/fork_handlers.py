"""fork(): a child has none of its parent's threads, and whatever they held in that moment stays held.

So what has a lock, a thread or a lease says what it is in a child: locks are new, threads are started again when they
are needed, and a lease belongs to the parent alone. (A store gives its connections back, or forgets them, by itself.)
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Forking(Protocol):
    """What must not be used by both sides of a fork as it is."""

    def after_fork(self) -> None:
        """In the child, before anything else runs there: begin anew. No lock may be waited for."""
        ...


_all: weakref.WeakSet[Forking] = weakref.WeakSet()


def begins_anew(one: Forking) -> None:
    """From now on it is told of every fork, in the child."""
    _all.add(one)


def _after_fork() -> None:
    for one in list(_all):
        one.after_fork()


os.register_at_fork(after_in_child=_after_fork)
