"""Effects that run in this process: while one runs, its session keeps its lease and its store stays open.

A tool in a thread cannot be stopped. If its session were released while it runs, the next attempt would find a call in
doubt that has not ended, and a probe could answer "no" a moment before the effect happens. So leaving the block, a
verdict and `close` return at once, and the last execution to end does the release.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from relight.system.fork_handlers import reset_after_fork

if TYPE_CHECKING:
    pass

EffectKey = tuple[int, str]
"""(asked_seq, id) of a tool call, (0, key) of `once`"""


class RunningEffects:
    """The effects running under one open store, and what to do when none is."""

    def __init__(self) -> None:
        self.after_fork()
        reset_after_fork(self)

    def after_fork(self) -> None:
        self._lock = threading.Lock()
        self._running: list[tuple[str, str]] = []
        self._at_rest: list[Callable[[], None]] = []

    def begin(self, session: str, what: str) -> None:
        """Count one more: an effect of this session, or "" for work that belongs to none."""
        with self._lock:
            self._running.append((session, what))

    def end(self, session: str, what: str) -> None:
        """Count one less; the last one runs the deferred callbacks."""
        with self._lock:
            if (session, what) in self._running:  # it is not in a child process forked inside the effect
                self._running.remove((session, what))
            waiting: list[Callable[[], None]] = []
            if not self._running:
                waiting, self._at_rest = self._at_rest, waiting
        # Outside the lock: a callback may close the store or end another session, which comes back here.
        for one in waiting:
            one()

    def of(self, session: str) -> list[str]:
        """Call ids and keys of the effects that run for a session."""
        with self._lock:
            return [what for owner, what in self._running if owner == session]

    def when_idle(self, do: Callable[[], None]) -> None:
        """Call now if nothing runs, else when the last effect ends."""
        with self._lock:
            if self._running:
                self._at_rest.append(do)
                return
        do()
