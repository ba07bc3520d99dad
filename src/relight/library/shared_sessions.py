"""What adapters of frameworks share: the library they are given, names of their sessions, sessions that stay open."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Final, Generic, TypeVar

from relight.errors import UsageError
from relight.library.facade import Relight
from relight.sessions.shared import SharedSession

_ODD: Final = re.compile(r"[^A-Za-z0-9._-]")
_Beside = TypeVar("_Beside")


def check_library(rl: object, example: str) -> Relight:
    """The library; UsageError with an example of the right call for anything else."""
    if isinstance(rl, Relight):
        return rl
    hints = [f"with relight.open() as rl: {example}"]
    raise UsageError(f"expected the result of relight.open(), not a {type(rl).__name__}", hints=hints)


def readable_part(foreign_id: str, *, length: int) -> str:
    """What of a framework's id may begin a session's name; possibly nothing."""
    return _ODD.sub("-", foreign_id)[:length].lstrip("._-")


class OpenSessions(Generic[_Beside]):
    """Shared sessions by name, each with what its adapter keeps beside it. Beyond `limit`, idle ones are closed, and
    opened again on demand. Thread-safe."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._open: OrderedDict[str, tuple[SharedSession, _Beside]] = OrderedDict()
        self._lock = Lock()

    def of(self, name: str, begin: Callable[[], tuple[SharedSession, _Beside]]) -> tuple[SharedSession, _Beside]:
        with self._lock:
            if name not in self._open:
                self._make_room()
                self._open[name] = begin()
            self._open.move_to_end(name)
            return self._open[name]

    def close(self) -> None:
        """Release the leases of this process."""
        with self._lock:
            opened, self._open = list(self._open.values()), OrderedDict()
        for shared, _ in opened:
            shared.close()

    def _make_room(self) -> None:
        if len(self._open) < self._limit:
            return
        # A quarter at once, least recently used first: otherwise every further session would scan the whole table.
        for name in [name for name, (shared, _) in self._open.items() if shared.is_idle][: self._limit // 4]:
            self._open.pop(name)[0].forget()
