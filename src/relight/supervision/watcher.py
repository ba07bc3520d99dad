"""Callbacks about a supervised program while it runs, and the handover of a session from a worker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from relight.history import events
from relight.ports.runtime import Child, Exit


class Watcher(Protocol):
    """Callbacks of a supervision, for progress output."""

    def started(self, pid: int, orphans: Sequence[int]) -> None:
        """The session's process runs; these orphans of an earlier attempt were ended."""
        ...

    def step(self, event: events.Event) -> None:
        """A step was committed, by the program or the supervisor."""
        ...

    def died(self, exit: Exit, again_in_seconds: float | None) -> None:
        """The process ended without a final status; it is restarted after so long, or not (None)."""
        ...

    def tick(self, child: Child) -> None:
        """Called many times a second while the process runs."""
        ...


class NullWatcher:
    """A watcher that ignores everything."""

    def started(self, pid: int, orphans: Sequence[int]) -> None: ...

    def step(self, event: events.Event) -> None: ...

    def died(self, exit: Exit, again_in_seconds: float | None) -> None: ...

    def tick(self, child: Child) -> None: ...


class Handover(msgspec.Struct, frozen=True, kw_only=True):
    """A session that a worker passes to its attendant's supervisor."""

    worker: str
    owner: str | None
    """the owner id under which the worker holds the lease; None: the supervisor claims by itself"""
