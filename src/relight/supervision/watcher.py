"""Who is told what happens to a supervised program, while it happens, and on whose behalf it is supervised."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from relight.history import events
from relight.ports.runtime import Child, Exit


class Watcher(Protocol):
    """Who is told what happens, while it happens."""

    def started(self, pid: int, orphans: Sequence[int]) -> None:
        """A process of the session runs; what the attempt before had left running was ended."""
        ...

    def step(self, event: events.Event) -> None:
        """A step was committed, by the program or by us."""
        ...

    def died(self, exit: Exit, again_in_seconds: float | None) -> None:
        """It ended without a verdict; None: it is not started again."""
        ...

    def tick(self, child: Child) -> None:
        """Many times a second."""
        ...


class NullWatcher:
    """Nobody looks."""

    def started(self, pid: int, orphans: Sequence[int]) -> None:
        """Not told."""

    def step(self, event: events.Event) -> None:
        """Not told."""

    def died(self, exit: Exit, again_in_seconds: float | None) -> None:
        """Not told."""

    def tick(self, child: Child) -> None:
        """Not told."""


class Handover(msgspec.Struct, frozen=True, kw_only=True):
    """A worker claimed the session and left it to this supervisor."""

    worker: str
    owner: str | None
    """under which the worker holds the lease until it is taken over; None: it is claimed here"""
