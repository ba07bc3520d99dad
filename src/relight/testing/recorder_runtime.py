"""A runtime for tests that starts no process: it records every call, and its children end as the test says.

    runtime = RecorderRuntime([Exit(signal=9), Exit(code=0)])     # the first start is killed, the second ends well
    ...
    assert [call.verb for call in runtime.calls] == ["check", "destroy", "spawn", ...]

A child without an entry in the script runs until `runtime.children[-1].finish(Exit(code=0))`, or until it gets a fatal
signal. `fail["destroy"] = Refused(...)` makes a method raise. `on_spawn` is called with each new child, so that a test
can do what the agent would do.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from relight.errors import AgentFailed, Refused, RelightError
from relight.ports.runtime import SESSION_VARIABLE, Exit, Probe
from relight.system.processes import LocalProcesses, program_of

_FIRST_PID: Final = 1 << 23
"""above the kernel's maximum pid, so that a mistaken signal can hit no real process"""
_HARMLESS: Final = frozenset({0, signal.SIGCONT, signal.SIGWINCH, signal.SIGCHLD, signal.SIGURG})


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One recorded call of the runtime."""

    verb: str
    handle: str = ""
    command: tuple[str, ...] = ()
    text: str = ""


class RecordedChild:
    """A simulated child process of the runtime."""

    holds_terminal = False

    def __init__(
        self, pid: int, handle: str, command: Sequence[str], directory: str, environment: Mapping[str, str]
    ) -> None:
        self.pid, self.handle = pid, handle
        self.command, self.directory, self.environment = tuple(command), directory, dict(environment)
        self.signals: list[int] = []
        self.typed: list[str] = []
        self.closed = False
        self.stderr: list[str] = []
        self.stdout: list[str] = []
        """the lines that `output` returns next"""
        self._exit: Exit | None = None

    @property
    def session(self) -> str:
        return self.environment.get(SESSION_VARIABLE, "")

    def finish(self, exit: Exit) -> None:
        """End the process; the first end counts."""
        self._exit = self._exit or exit

    def poll(self) -> Exit | None:
        return self._exit

    def signal(self, number: int) -> None:
        self.signals.append(number)
        if number not in _HARMLESS:
            self.finish(Exit(signal=number))

    def last_lines(self) -> list[str]:
        return self.stderr[-20:]

    def output(self) -> list[str]:
        lines, self.stdout = self.stdout, []
        return lines

    def close(self) -> None:
        self.closed = True


class RecorderRuntime:
    """A runtime whose handles and children exist in memory only."""

    name = "recorder"
    persistent = True

    def __init__(
        self, script: Sequence[Exit | None] = (), *, on_spawn: Callable[[RecordedChild], None] | None = None
    ) -> None:
        self.script = list(script)
        """how each start ends, in order; None: it keeps running"""
        self.on_spawn = on_spawn
        self.calls: list[Call] = []
        self.children: list[RecordedChild] = []
        self.left_behind: list[RecordedChild] = []
        """orphans that the test has added"""
        self.probes: dict[str, Probe] = {}
        """results of `probe` that the test has set, by handle"""
        self.supervisors: dict[int, int] = {}
        self.fail: dict[str, RelightError] = {}
        self._places: dict[str, RecordedChild] = {}
        self._local = LocalProcesses()

    def verbs(self) -> list[str]:
        """The names of the recorded calls, in order."""
        return [call.verb for call in self.calls]

    def environment(self) -> Mapping[str, str]:
        return {}

    def check(self, command: Sequence[str], directory: str) -> None:
        self._note(Call(verb="check", command=tuple(command)))
        self._local.check(command, directory)

    def spawn(
        self,
        command: Sequence[str],
        *,
        directory: str,
        environment: Mapping[str, str],
        handle: str = "",
        log: Path | None = None,
        capture: bool = False,
    ) -> RecordedChild:
        handle = handle or f"recorder-{len(self.children)}"
        self._note(Call(verb="spawn", handle=handle, command=tuple(command)))
        if (before := self._places.get(handle)) is not None and before.poll() is None:
            raise Refused(f"{handle}: pid {before.pid} still runs there")
        # Checked like a real runtime does: tests of a missing program must not depend on the runtime.
        if program_of(command[0], directory) is None:
            raise AgentFailed(f"cannot start {command[0]!r}: no such file")
        child = RecordedChild(_FIRST_PID + len(self.children), handle, command, directory, environment)
        self.children.append(child)
        self._places[handle] = child
        if log is not None:
            log.touch(mode=0o600)
        if self.on_spawn is not None:
            self.on_spawn(child)
        if self.script and (exit := self.script.pop(0)) is not None:
            child.finish(exit)
        return child

    def probe(self, handle: str) -> Probe:
        self._note(Call(verb="probe", handle=handle))
        if handle in self.probes:
            return self.probes[handle]
        child = self._places.get(handle)
        if child is None:
            return Probe(liveness="absent", text=f"no handle {handle!r}")
        exit = child.poll()
        text = f"pid {child.pid} lives" if exit is None else f"it has ended ({exit})"
        return Probe(liveness="alive" if exit is None else "dead", pid=child.pid, exit=exit, text=text)

    def deliver(self, handle: str, text: str) -> None:
        self._note(Call(verb="deliver", handle=handle, text=text))
        child = self._places.get(handle)
        if child is None or child.poll() is not None:
            raise Refused(f"no agent lives in {handle!r}; nothing was sent")
        child.typed.append(text)

    def destroy(self, handle: str) -> None:
        self._note(Call(verb="destroy", handle=handle))
        child = self._places.pop(handle, None)
        if child is not None:
            child.finish(Exit(signal=signal.SIGKILL))

    def attach_command(self, handle: str) -> list[str] | None:
        return self.attach(handle)

    def screen(self, handle: str) -> list[str] | None:
        return None

    def attach(self, handle: str) -> list[str] | None:
        self._note(Call(verb="attach", handle=handle))
        return ["recorder", "attach", handle] if handle in self._places else None

    def reattach(self, handle: str) -> RecordedChild | None:
        self._note(Call(verb="adopt", handle=handle))
        child = self._places.get(handle)
        return child if child is not None and child.poll() is None else None

    def leave_behind(self, session: str) -> RecordedChild:
        """Add an orphan: a process of a dead attempt that still runs."""
        child = RecordedChild(_FIRST_PID * 2 + len(self.left_behind), "", (), ".", {SESSION_VARIABLE: session})
        self.left_behind.append(child)
        return child

    def orphans(self, session: str) -> list[int]:
        self._note(Call(verb="orphans", text=session))
        return [child.pid for child in self._all() if child.session == session and child.poll() is None]

    def holds_open(self, path: Path, session: str) -> bool | None:
        return self._local.holds_open(path, session)

    def end(self, pids: Sequence[int], *, seconds: float) -> None:
        self._note(Call(verb="end", text=" ".join(map(str, pids))))
        for child in self._all():
            if child.pid in pids:
                child.signal(signal.SIGTERM)

    def supervisor(self) -> str:
        return self._local.supervisor()

    def supervisor_of(self, pid: int, session: str) -> int | None:
        return self.supervisors.get(pid)

    def signal(self, pid: int, number: int) -> bool:
        self._note(Call(verb="signal", text=f"{pid} {number}"))
        living = [child for child in self._all() if child.pid == pid and child.poll() is None]
        for child in living:
            child.signal(number)
        return bool(living)

    def _all(self) -> list[RecordedChild]:
        return [*self.children, *self.left_behind]

    def _note(self, call: Call) -> None:
        self.calls.append(call)
        if call.verb in self.fail:
            raise self.fail[call.verb]
