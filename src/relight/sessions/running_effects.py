"""Effects under way: as long as one runs, its session keeps its lease and its store stays open, whoever waits for it.

A tool in a thread cannot be stopped. If its session were released while it runs, the next attempt would find a call
in doubt that has not ended at all, and a probe would answer "no" a moment before the effect happens. So leaving the
block, a verdict and `close` return at once, and what they give back is given back by the last execution that ends.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

from relight.sessions.coroutines import Execute
from relight.system.fork_handlers import begins_anew

if TYPE_CHECKING:
    from relight.sessions.session import Session

EffectKey = tuple[int, str]
"""(asked_seq, id) of a call, (0, key) of `once`"""


class RunningEffects:
    """What runs in one open store of this process, and what is done once nothing does."""

    def __init__(self) -> None:
        self.after_fork()
        begins_anew(self)

    def after_fork(self) -> None:
        """In a forked child nothing runs yet, as at the beginning."""
        self._lock = threading.Lock()
        self._running: list[tuple[str, str]] = []
        self._at_rest: list[Callable[[], None]] = []

    def begin(self, session: str, what: str) -> None:
        """One more: an effect of this session, or "" for what belongs to none."""
        with self._lock:
            self._running.append((session, what))

    def end(self, session: str, what: str) -> None:
        """One less; the last one does what waited for it."""
        with self._lock:
            if (session, what) in self._running:  # not so in a child that was forked inside it
                self._running.remove((session, what))
            waiting: list[Callable[[], None]] = []
            if not self._running:
                waiting, self._at_rest = self._at_rest, waiting
        for one in waiting:
            one()

    def of(self, session: str) -> list[str]:
        """What runs of a session, by call id or key."""
        with self._lock:
            return [what for owner, what in self._running if owner == session]

    def when_idle(self, do: Callable[[], None]) -> None:
        """Now where nothing runs, else by the last that ends."""
        with self._lock:
            if self._running:
                self._at_rest.append(do)
                return
        do()


class Execution:
    """One effect of a session, from before its intent until after its outcome."""

    def __init__(self, session: Session, place: EffectKey) -> None:
        self._session = session
        self._place = place
        self.request: Execute | None = None
        """the function that is run; where it still runs when the program is closed, `end` is called by its `late`"""

    def __enter__(self) -> Execution:
        self._session._begin_execution(self._place)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.request is None or not self.request.is_running:
            self.end()

    def end(self) -> None:
        """It has ended, and its outcome is recorded where there is one."""
        self._session._end_execution(self._place)
