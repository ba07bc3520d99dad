"""Runtime: where an agent's process runs. Guarantees of every implementation:

1. `spawn` passes a command as arguments, never through a shell; the process gets its own process group.
2. `poll` returns at once: the exit, or None while the process lives. Once returned, an exit does not change.
3. Signals go to the whole group, so that no helper of the agent outlives it by accident.
4. `orphans` finds processes of dead attempts by evidence in the processes themselves, not by remembered pids.
5. A handle names a terminal, not a process: a session has the same handle over restarts, and a person who is attached
   sees the new process.
6. `deliver` types into the agent or not at all: never into a shell that has replaced it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, Protocol

import msgspec

SESSION_VARIABLE: Final = "RELIGHT_SESSION"
"""the session of a program; by it orphans are found too"""
PARENT_VARIABLE: Final = "RELIGHT_PARENT"
"""the session whose program started this process, if it is not the session's program itself"""
OWNER_VARIABLE: Final = "RELIGHT_OWNER"
STORE_VARIABLE: Final = "RELIGHT_STORE"
CONFINED_VARIABLE: Final = "RELIGHT_CONFINED"
"""set if only HOME belongs to the agent (sandbox): links out of it must not be followed"""
AGENT_VARIABLE: Final = "RELIGHT_AGENT"
"""set for coding agents: the programs that an agent runs as tools do not open its session"""
SECRETS_VARIABLE: Final = "RELIGHT_SECRETS"
"""names of further variables whose values are redacted"""
COMMAND_VARIABLE: Final = "RELIGHT_COMMAND"
"""a session's id and its command line as typed, for its background supervisor: the stored one has no secrets"""
SUPERVISOR_VARIABLE: Final = "RELIGHT_SUPERVISOR"
"""pid and start time of the supervisor, so that `stop` signals it and not only its child"""

SET_BY_US: Final = frozenset(
    {SESSION_VARIABLE, PARENT_VARIABLE, OWNER_VARIABLE, STORE_VARIABLE, AGENT_VARIABLE, SECRETS_VARIABLE}
    | {SUPERVISOR_VARIABLE}
)
"""variables that every start sets, and that are therefore not taken from a user's environment"""


class Exit(msgspec.Struct, frozen=True, kw_only=True):
    """How a process ended: a code, or the signal that killed it."""

    code: int | None = None
    signal: int | None = None

    @property
    def shell_code(self) -> int:
        """The exit code a shell would report: 128 + n for signal n."""
        return 128 + self.signal if self.signal is not None else self.code or 0

    def __str__(self) -> str:
        return f"signal {self.signal}" if self.signal is not None else f"exit code {self.code}"


Liveness = Literal["alive", "dead", "absent", "unknown"]


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about the process behind a handle. Evidence, not a verdict."""

    liveness: Liveness
    """alive: a process runs there; dead: the terminal exists, its process has ended; absent: no such terminal"""
    pid: int | None = None
    exit: Exit | None = None
    text: str = ""
    """one line for a person"""


class Child(Protocol):
    """A process spawned or reattached by a runtime."""

    @property
    def handle(self) -> str:
        """The handle of its terminal; empty if the runtime is not persistent."""
        ...

    @property
    def pid(self) -> int:
        """The process id, which is also its group's."""
        ...

    @property
    def holds_terminal(self) -> bool:
        """Whether it has taken our terminal, so that nothing else may be printed there."""
        ...

    def poll(self) -> Exit | None:
        """The exit, or None while it lives."""
        ...

    def signal(self, number: int) -> None:
        """Send a signal to its whole group. No error if no process is left."""
        ...

    def last_lines(self) -> list[str]:
        """The last lines it wrote to stderr."""
        ...

    def output(self) -> list[str]:
        """Whole lines of its stdout since the last call; none unless captured."""
        ...

    def close(self) -> None:
        """After its exit: take the terminal back and close its output."""
        ...


class Runtime(Protocol):
    """Starts, finds and ends processes."""

    @property
    def name(self) -> str:
        """The name recorded with a session and given to `--runtime`."""
        ...

    @property
    def persistent(self) -> bool:
        """Whether its terminals outlive the processes in them, so that handles can be reattached."""
        ...

    def environment(self) -> Mapping[str, str]:
        """Variables that differ from our own for every process started there, such as HOME in a sandbox."""
        ...

    def check(self, command: Sequence[str], directory: str) -> None:
        """UsageError if the program or the directory does not exist."""
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
        """Start a process, with these variables added to ours. AgentFailed if the system refuses.

        `handle`: the terminal to start it in, created if missing. `log`: a file for all its output (0600, bounded).
        `capture`: copy its stdout through us, so that `Child.output` has its lines.
        """
        ...

    def probe(self, handle: str) -> Probe:
        """The state of the process behind a handle. Never raises for a missing one."""
        ...

    def deliver(self, handle: str, text: str) -> None:
        """Type text and Enter into the live agent. Refused if another process, or none, would read it."""
        ...

    def destroy(self, handle: str) -> None:
        """End the process behind a handle and remove the terminal; no error if there is none."""
        ...

    def attach(self, handle: str) -> list[str] | None:
        """The command that attaches a person to the terminal; None if it does not exist."""
        ...

    def attach_command(self, handle: str) -> list[str] | None:
        """Like `attach`, without checking that the terminal exists."""
        ...

    def screen(self, handle: str) -> list[str] | None:
        """What is on the terminal now, with a bounded part of what scrolled away; None if it has no terminal. Changes
        nothing."""
        ...

    def reattach(self, handle: str) -> Child | None:
        """The living process behind a handle, whichever process spawned it; None if there is none."""
        ...

    def orphans(self, session: str) -> list[int]:
        """Living processes of earlier attempts of this session, without ourselves and our ancestors."""
        ...

    def holds_open(self, path: Path, session: str) -> bool | None:
        """Whether a process of this session has the file open; False if only others have, None if none is seen to."""
        ...

    def end(self, pids: Sequence[int], *, seconds: float) -> None:
        """Send SIGTERM, wait so long, send SIGKILL to what is left."""
        ...

    def supervisor(self) -> str:
        """The value of RELIGHT_SUPERVISOR that identifies this process to `supervisor_of`."""
        ...

    def supervisor_of(self, pid: int, session: str) -> int | None:
        """The living supervisor that started this process for this session; None if there is none."""
        ...

    def signal(self, pid: int, number: int) -> bool:
        """Send a signal to one process; False if it is gone. Refused if the system forbids it."""
        ...


class RuntimeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """For which session a runtime is made."""

    session: str
    """empty: only to check whether a program can be started"""
    directory: Path
    """private to the user and to this runtime, beside the store; not created yet"""
    network: bool
    """False: the process must not reach the network; a runtime that cannot hold this raises UsageError"""


RuntimeFactory = Callable[[RuntimeRequest], Runtime]
"""the object of an entry point in the group `relight.runtimes`; the runtime's `name` is that of the entry point"""
