"""A runtime: where an agent's process lives. What every runtime promises.

1. `spawn` passes a command as arguments, never through a shell; the process gets a group of its own.
2. `poll` answers at once: the exit, or None while the process lives. It tells the truth once and for ever.
3. Signals go to the whole group, so that no helper of the agent outlives it by accident.
4. `orphans` finds what a dead attempt left running by evidence of the processes themselves, not by remembered pids.
5. A handle names a place, not a process: a session keeps its handle over restarts, and what a person attached to
   shows the new process.
6. `deliver` types into the agent or into nothing: never into a shell that stands where the agent was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, Protocol

import msgspec

SESSION_VARIABLE: Final = "RELIGHT_SESSION"
"""names the session to the program, and its processes to whoever looks for orphans"""
PARENT_VARIABLE: Final = "RELIGHT_PARENT"
"""names the session whose program started a process that is not the session's own"""
OWNER_VARIABLE: Final = "RELIGHT_OWNER"
STORE_VARIABLE: Final = "RELIGHT_STORE"
CONFINED_VARIABLE: Final = "RELIGHT_CONFINED"
"""set where an agent's HOME is all that is its own: what a link in there leads to outside is not"""
AGENT_VARIABLE: Final = "RELIGHT_AGENT"
"""set for coding agents: a program that one of them runs is not the session's own, and does not take it over"""
SECRETS_VARIABLE: Final = "RELIGHT_SECRETS"
"""names of further variables whose values are redacted"""
COMMAND_VARIABLE: Final = "RELIGHT_COMMAND"
"""a session's id and its command line, for the supervisor that starts it: the record holds no secrets"""
LOG_VARIABLE: Final = "RELIGHT_LOGGED"
"""set for a supervisor whose output is kept in a file: it is redacted on the way"""
SUPERVISOR_VARIABLE: Final = "RELIGHT_SUPERVISOR"
"""pid and start time of the supervisor, so that `stop` asks it and not only its child"""

SET_BY_US: Final = frozenset(
    {SESSION_VARIABLE, PARENT_VARIABLE, OWNER_VARIABLE, STORE_VARIABLE, AGENT_VARIABLE, SECRETS_VARIABLE}
    | {SUPERVISOR_VARIABLE}
)
"""what every start sets itself; nobody else does"""


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


Liveness = Literal["alive", "dead", "absent", "unknown"]


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """What can be seen behind a handle. Evidence, not a verdict."""

    liveness: Liveness
    """alive: a process runs there; dead: the place is there, its process has ended; absent: no such place"""
    pid: int | None = None
    exit: Exit | None = None
    text: str = ""
    """one line for a person"""


class Child(Protocol):
    """A process that was spawned."""

    @property
    def handle(self) -> str:
        """Where it lives; empty where the runtime has no places that outlast a process."""
        ...

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

    def output(self) -> list[str]:
        """Whole lines of its stdout since the last call; none where that was not captured."""
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

    @property
    def persistent(self) -> bool:
        """Do its handles outlast a process?"""
        ...

    def environment(self) -> Mapping[str, str]:
        """What is different from our environment for all that is started there: another home, say."""
        ...

    def check(self, command: Sequence[str], directory: str) -> None:
        """UsageError where the program or the directory does not exist."""
        ...

    def spawn(
        self,
        command: Sequence[str],
        *,
        directory: str,
        environment: Mapping[str, str],
        handle: str = "",
        log: Path | None = None,
        capture: bool = False,
    ) -> Child:
        """Start it, with these variables added to ours. AgentFailed where the system refuses.

        `handle`: the place to start it in, made if need be. `log`: a file that gets all it prints (made 0600, bounded).
        `capture`: its stdout passes through us too, copied on at once, and `Child.output` has its lines.
        """
        ...

    def probe(self, handle: str) -> Probe:
        """What lives behind a handle. Never raises for one that is not there."""
        ...

    def deliver(self, handle: str, text: str) -> None:
        """Type text and Enter into the live agent. Refused, with the reason, where a shell or nothing is in front."""
        ...

    def destroy(self, handle: str) -> None:
        """End what lives behind a handle and remove the place; no error where there is none."""
        ...

    def attach(self, handle: str) -> list[str] | None:
        """The command that shows the place to a person; None where there is nothing to join."""
        ...

    def attach_command(self, handle: str) -> list[str] | None:
        """The same without a look whether anything is there."""
        ...

    def reattach(self, handle: str) -> Child | None:
        """The living process behind a handle, whoever spawned it, as a child of ours; None where there is none."""
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
