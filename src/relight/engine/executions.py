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

from relight.engine.program import Execute

if TYPE_CHECKING:
    from relight.engine.session import Session

Place = tuple[int, str]
"""(asked_seq, id) of a call, (0, key) of `once`"""


class Underway:
    """How many effects run anywhere in one open store, and what is done once none does."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._at_rest: list[Callable[[], None]] = []

    def begin(self) -> None:
        """One more."""
        with self._lock:
            self._count += 1

    def end(self) -> None:
        """One less; the last one does what waited for it."""
        with self._lock:
            self._count -= 1
            waiting = [] if self._count else self._at_rest
            if waiting:
                self._at_rest = []
        for one in waiting:
            one()

    def when_at_rest(self, do: Callable[[], None]) -> None:
        """Now where nothing runs, else by the last execution that ends."""
        with self._lock:
            if self._count:
                self._at_rest.append(do)
                return
        do()


class Execution:
    """One effect of a session, from before its intent until after its outcome."""

    def __init__(self, session: Session, place: Place) -> None:
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
