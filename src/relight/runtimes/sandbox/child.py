"""A process behind the wall, as seen from before it.

bwrap stands between: it would die of a signal that is meant for the agent, and take the agent with it unasked. So a
signal goes to the agent's own group inside, and only SIGKILL to the wall, which buries all that is inside. An agent
that a signal killed is reported by bwrap as exit code 128 + n, and here as that signal.
"""

from __future__ import annotations

import os
import signal
from typing import Final

from relight.ports.runtime import Child, Exit
from relight.system.processes import children_of, group_of, members_of

_SIGNALLED: Final = 128
_SIGNALS: Final = frozenset(int(one) for one in signal.valid_signals())


def unwrap_exit(exit: Exit) -> Exit:
    """How the agent ended, by how the wall did."""
    number = (exit.code or 0) - _SIGNALLED
    return Exit(signal=number) if number in _SIGNALS else exit


class SandboxChild:
    """One process in a sandbox."""

    def __init__(self, wall: Child) -> None:
        self._wall = wall
        self._exit: Exit | None = None

    @property
    def handle(self) -> str:
        return self._wall.handle

    @property
    def pid(self) -> int:
        return self._wall.pid

    @property
    def holds_terminal(self) -> bool:
        return self._wall.holds_terminal

    def poll(self) -> Exit | None:
        if self._exit is None and (exit := self._wall.poll()) is not None:
            self._exit = unwrap_exit(exit)
        return self._exit

    def signal(self, number: int) -> None:
        if number == signal.SIGKILL or self._exit is not None:
            self._wall.signal(number)
            return
        first = children_of(self.pid)
        inside = [pid for one in first for pid in children_of(one)]
        targets = {member for pid in inside for member in members_of(group_of(pid))} - {self.pid, *first}
        if not targets:  # it is not in there yet
            self._wall.signal(number)
        for pid in targets:
            try:
                os.kill(pid, number)
            except (ProcessLookupError, PermissionError):
                continue

    def last_lines(self) -> list[str]:
        return self._wall.last_lines()

    def output(self) -> list[str]:
        return self._wall.output()

    def close(self) -> None:
        self._wall.close()
