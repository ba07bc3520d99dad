"""Fork handlers: reset objects with locks, threads or leases in a forked child.

A child has none of its parent's threads, and locks they held at that moment are never released. So such an object
makes new locks in the child and starts its threads again when needed; a lease stays with the parent. (Stores close or
drop their connections by themselves.)
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Forking(Protocol):
    """An object that must be reset in a forked child."""

    def after_fork(self) -> None:
        """Reset the object; called in the child before anything else runs. Must not acquire an inherited lock."""
        ...


_all: weakref.WeakSet[Forking] = weakref.WeakSet()


def reset_after_fork(one: Forking) -> None:
    """Call the object's `after_fork` in every forked child from now on, while the object exists."""
    _all.add(one)


def _after_fork() -> None:
    for one in list(_all):
        one.after_fork()


os.register_at_fork(after_in_child=_after_fork)
