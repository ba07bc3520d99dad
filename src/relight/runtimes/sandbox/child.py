"""Child wrapper that maps signals and exit codes through bwrap.

bwrap would die of a signal meant for the agent and kill the agent with it. So signals go to the agent's own group
inside the sandbox; only SIGKILL goes to bwrap, which ends everything inside. An agent killed by signal n makes bwrap
exit with 128 + n, which is reported here as that signal.
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
    """The agent's exit, given bwrap's: bwrap reports 128 + n for signal n."""
    number = (exit.code or 0) - _SIGNALLED
    return Exit(signal=number) if number in _SIGNALS else exit


class SandboxChild:
    """A process in a sandbox, given the bwrap process around it."""

    def __init__(self, bwrap: Child) -> None:
        self._bwrap = bwrap
        self._exit: Exit | None = None

    @property
    def handle(self) -> str:
        return self._bwrap.handle

    @property
    def pid(self) -> int:
        return self._bwrap.pid

    @property
    def holds_terminal(self) -> bool:
        return self._bwrap.holds_terminal

    def poll(self) -> Exit | None:
        if self._exit is None and (exit := self._bwrap.poll()) is not None:
            self._exit = unwrap_exit(exit)
        return self._exit

    def signal(self, number: int) -> None:
        if number == signal.SIGKILL or self._exit is not None:
            self._bwrap.signal(number)
            return
        # bwrap's only child is the sandbox's init; the agent and its group are below that.
        first = children_of(self.pid)
        inside = [pid for one in first for pid in children_of(one)]
        targets = {member for pid in inside for member in members_of(group_of(pid))} - {self.pid, *first}
        if not targets:  # the agent has not been started yet: ending bwrap is enough
            self._bwrap.signal(number)
        for pid in targets:
            try:
                os.kill(pid, number)
            except (ProcessLookupError, PermissionError):
                continue

    def last_lines(self) -> list[str]:
        return self._bwrap.last_lines()

    def output(self) -> list[str]:
        return self._bwrap.output()

    def close(self) -> None:
        self._bwrap.close()
