"""A runtime: where an agent's process lives. What every runtime promises.

1. `spawn` passes a command as arguments, never through a shell; the process gets a group of its own.
2. `poll` answers at once: the exit, or None while the process lives. It tells the truth once and for ever.
3. Signals go to the whole group, so that no helper of the agent outlives it by accident.
4. `orphans` finds what a dead attempt left running by evidence of the processes themselves, not by remembered pids.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

import msgspec

SESSION_VARIABLE: Final = "RELIGHT_SESSION"
"""names the session to the program, and its processes to whoever looks for orphans"""
OWNER_VARIABLE: Final = "RELIGHT_OWNER"
STORE_VARIABLE: Final = "RELIGHT_STORE"
SUPERVISOR_VARIABLE: Final = "RELIGHT_SUPERVISOR"
"""pid and start time of the supervisor, so that `stop` asks it and not only its child"""


class Exit(msgspec.Struct, frozen=True, kw_only=True):
    """How a process ended: a code, or the signal that killed it."""

    code: int | None = None
    signal: int | None = None

    @property
    def shell_code(self) -> int:
        """As a shell reports it."""
        return 128 + self.signal if self.signal is not None else self.code or 0

    def __str__(self) -> str:
        return f"signal {self.signal}" if self.signal is not None else f"exit code {self.code}"


class Child(Protocol):
    """A process that was spawned."""

    @property
    def pid(self) -> int:
        """Also the number of its group."""
        ...

    @property
    def holds_terminal(self) -> bool:
        """Did it ask for the terminal, so that nobody else may draw on it?"""
        ...

    def poll(self) -> Exit | None:
        """The exit, or None while it lives."""
        ...

    def signal(self, number: int) -> None:
        """Send a signal to its whole group. No error where nothing is left of it."""
        ...

    def last_lines(self) -> list[str]:
        """The end of what it wrote to stderr."""
        ...

    def close(self) -> None:
        """After its end: take the terminal back, let go of its output."""
        ...


class Runtime(Protocol):
    """Starts, finds and ends processes."""

    @property
    def name(self) -> str:
        """As recorded with the session."""
        ...

    def check(self, command: Sequence[str], directory: str) -> None:
        """UsageError where the program or the directory does not exist."""
        ...

    def spawn(self, command: Sequence[str], *, directory: str, environment: Mapping[str, str]) -> Child:
        """Start it, with these variables added to ours. AgentFailed where the system refuses."""
        ...

    def orphans(self, session: str) -> list[int]:
        """Living processes of earlier attempts of this session, ourselves and our ancestors left out."""
        ...

    def end(self, pids: Sequence[int], *, seconds: float) -> None:
        """Ask them to end, wait, kill what is left."""
        ...

    def supervisor(self) -> str:
        """This process, as `supervisor_of` will want to find it."""
        ...

    def supervisor_of(self, pid: int, session: str) -> int | None:
        """The living supervisor that started this process for this session; None where there is none."""
        ...

    def signal(self, pid: int, number: int) -> bool:
        """Send a signal to one process; False where it is gone. Refused where the system forbids it."""
        ...
