"""The sandbox runtime: another runtime, with each command wrapped in bubblewrap."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import structs

from relight.errors import AgentFailed, UsageError
from relight.ports.hooks import LOG_VARIABLE
from relight.ports.runtime import CONFINED_VARIABLE, SESSION_VARIABLE, Probe, Runtime
from relight.runtimes.sandbox import view
from relight.runtimes.sandbox.child import SandboxChild, unwrap_exit
from relight.system import private_directories
from relight.system.platform import Platform, this_platform
from relight.system.processes import program_of

INSTALL: Final = "install it: apt-get install bubblewrap (or: dnf install bubblewrap, pacman -S bubblewrap)"
_TRY_SECONDS: Final = 10.0
_OURSELVES: Final = str(Path(__file__).resolve().parents[2])
"""relight's own package, which an agent's hooks run from inside the sandbox"""
_SESSION: Final = re.compile(r"[A-Za-z0-9_-]{1,100}")


class SandboxRuntime:
    """Runs the agents of `inner`, each in its own sandbox.

    `homes`: the directory with one home per session, which survives restarts. `writable`, `readable`: directories
    visible beside the workspace. `network`: False leaves only a loopback interface. `private`: directories that are
    always hidden. `forgotten`: environment variables that are removed. Files that the supervisor writes must not be in
    a `writable` directory: the agent could replace them by links, which would be followed outside of the sandbox.
    """

    name = "sandbox"

    def __init__(
        self,
        inner: Runtime,
        homes: Path,
        *,
        writable: Sequence[str | Path] = (),
        readable: Sequence[str | Path] = (),
        network: bool = True,
        session: str = "",
        private: Sequence[str | Path] = (),
        forgotten: Sequence[str] = (),
        platform: Platform | None = None,
    ) -> None:
        self._inner, self._homes, self._session = inner, homes, session
        self._private, self._forgotten = view.unique(private), list(forgotten)
        self._writable, self._readable, self._network = view.unique(writable), view.unique(readable), network
        self._works = False
        self._platform = platform or this_platform()

    @property
    def persistent(self) -> bool:
        return self._inner.persistent

    def environment(self) -> dict[str, str]:
        """HOME inside the sandbox, if the session is known, and the marker that files outside of it are not its own."""
        return {"HOME": self._home(self._session), CONFINED_VARIABLE: "1"} if self._session else {}

    def check(self, command: Sequence[str], directory: str) -> None:
        self._check_platform()
        self._inner.check(command, directory)
        view.checked(directory, self._private)
        self._try()

    def _check_platform(self) -> None:
        """UsageError where there is no bubblewrap to be had."""
        if not self._platform.is_linux:
            hints = ["run it without: --runtime process (or tmux)"]
            raise UsageError("the sandbox runtime needs Linux; nothing was started", hints=hints)

    def _try(self) -> None:
        """UsageError unless bwrap is installed and can make a sandbox on this system; remembered if it can."""
        if self._works:
            return
        self._check_platform()
        if shutil.which("bwrap") is None:
            hints = [INSTALL, "or run it without: --runtime process"]
            raise UsageError("bubblewrap (bwrap) is not installed; the sandbox runtime needs it", hints=hints)
        words = ["bwrap", *view.isolation(network=self._network, new_session=True), "--", "true"]
        try:
            done = subprocess.run(words, capture_output=True, timeout=_TRY_SECONDS, check=False)
            why = done.stderr.decode("utf-8", "replace").strip() if done.returncode else ""
        except (OSError, subprocess.TimeoutExpired) as error:
            why = str(error)
        if why:
            hints = [
                "unprivileged user namespaces may be off: sysctl kernel.unprivileged_userns_clone=1, or on Ubuntu "
                "kernel.apparmor_restrict_unprivileged_userns=0 (as root)",
                "in a container they may be forbidden altogether; run it without: --runtime process",
            ]
            raise UsageError(f"bubblewrap cannot create a sandbox on this system: {why}", hints=hints)
        self._works = True

    def spawn(
        self,
        command: Sequence[str],
        *,
        directory: str,
        environment: Mapping[str, str],
        handle: str = "",
        log: Path | None = None,
        capture: bool = False,
    ) -> SandboxChild:
        self._try()
        home = self._home(environment.get(SESSION_VARIABLE, ""))
        bwrap = self._inner.spawn(
            self.wrapped(command, directory, home),
            directory=directory,
            environment={**environment, **view.variables(home), LOG_VARIABLE: f"{home}/hook.log"},
            handle=handle,
            log=log,
            capture=capture,
        )
        return SandboxChild(bwrap)

    def wrapped(self, command: Sequence[str], directory: str, home: str) -> list[str]:
        """The bwrap command line that runs `command` in `directory` with this home."""
        where = view.checked(directory, self._private)
        program = program_of(command[0], directory)
        if program is None:
            raise AgentFailed(f"cannot start {command[0]!r}: no such program")
        roots = [root for one in (program, sys.executable) for root in view.roots_of(one, self._private)]
        isolation = view.isolation(
            network=self._network,
            # If the agent shares our terminal it could push input into it (TIOCSTI), so it gets a session without
            # one. A pane's terminal is its own, and there job control has to work.
            new_session=self._inner.name == "process",
            private=self._private,
            forgotten=self._forgotten,
        )
        mounts = view.mounts(
            readable=[*self._readable, *roots, _OURSELVES],
            writable=[home, where, *self._writable],
            directory=where,
            private=self._private,
        )
        # Not only --unsetenv: bwrap itself is the first process inside, and its environment can be read there.
        unset = ["env", *(word for name in self._forgotten for word in ("-u", name))] if self._forgotten else []
        return [*unset, "bwrap", *isolation, *mounts, "--", *command]

    def _home(self, session: str) -> str:
        if not _SESSION.fullmatch(session):
            raise UsageError("a sandbox needs a session id, which names its home directory")
        home = Path(os.path.realpath(self._homes)) / session
        private_directories.make_trusted(home)
        return str(home)

    def probe(self, handle: str) -> Probe:
        probe = self._inner.probe(handle)
        return structs.replace(probe, exit=unwrap_exit(probe.exit)) if probe.exit is not None else probe

    def deliver(self, handle: str, text: str) -> None:
        self._inner.deliver(handle, text)

    def destroy(self, handle: str) -> None:
        self._inner.destroy(handle)

    def attach_command(self, handle: str) -> list[str] | None:
        return self._inner.attach_command(handle)

    def screen(self, handle: str) -> list[str] | None:
        return self._inner.screen(handle)

    def attach(self, handle: str) -> list[str] | None:
        return self._inner.attach(handle)

    def reattach(self, handle: str) -> SandboxChild | None:
        bwrap = self._inner.reattach(handle)
        return SandboxChild(bwrap) if bwrap is not None else None

    def orphans(self, session: str) -> list[int]:
        return self._inner.orphans(session)

    def holds_open(self, path: Path, session: str) -> bool | None:
        return None  # paths differ in there; its home has no other agent's sessions anyway

    def end(self, pids: Sequence[int], *, seconds: float) -> None:
        self._inner.end(pids, seconds=seconds)

    def supervisor(self) -> str:
        return self._inner.supervisor()

    def supervisor_of(self, pid: int, session: str) -> int | None:
        return self._inner.supervisor_of(pid, session)

    def signal(self, pid: int, number: int) -> bool:
        return self._inner.signal(pid, number)
