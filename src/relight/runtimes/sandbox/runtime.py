"""A runtime around a runtime: the same places, the command behind a wall."""

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
from relight.system.processes import program_of

INSTALL: Final = "install it: apt-get install bubblewrap (or: dnf install bubblewrap, pacman -S bubblewrap)"
_TRY_SECONDS: Final = 10.0
_OURSELVES: Final = str(Path(__file__).resolve().parents[2])
"""relight itself, which the hooks of an agent call from inside"""
_SESSION: Final = re.compile(r"[A-Za-z0-9_-]{1,100}")


class SandboxRuntime:
    """Agents of `inner`, each in a view of its own.

    `homes`: where each session has its home, kept over restarts. `writable`, `readable`: directories that are let
    through beside the workspace. `network`: False leaves only its own loopback. `private`: directories that are hidden
    wherever they lie; `forgotten`: variables that are not handed in. What the supervisor writes must not be among what
    is `writable`: a link that the agent puts in its place would be followed outside.
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
    ) -> None:
        self._inner, self._homes, self._session = inner, homes, session
        self._private, self._forgotten = view.unique(private), list(forgotten)
        self._writable, self._readable, self._network = view.unique(writable), view.unique(readable), network
        self._works = False

    @property
    def persistent(self) -> bool:
        return self._inner.persistent

    def environment(self) -> dict[str, str]:
        """Its home, where the session is known, and that nothing outside of it is the agent's."""
        return {"HOME": self._home(self._session), CONFINED_VARIABLE: "1"} if self._session else {}

    def check(self, command: Sequence[str], directory: str) -> None:
        self._inner.check(command, directory)
        view.checked(directory, self._private)
        self._try()

    def _try(self) -> None:
        """Is there a bwrap, and does this system let it work? Asked once."""
        if self._works:
            return
        if shutil.which("bwrap") is None:
            hints = [INSTALL, "or run it without: --runtime process"]
            raise UsageError("bubblewrap (bwrap) is not installed, and the sandbox is made of it", hints=hints)
        words = ["bwrap", *view.walls(network=self._network, new_session=True), "--", "true"]
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
            raise UsageError(f"this system does not let bubblewrap make a sandbox: {why}", hints=hints)
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
        wall = self._inner.spawn(
            self.wrapped(command, directory, home),
            directory=directory,
            environment={**environment, **view.variables(home), LOG_VARIABLE: f"{home}/hook.log"},
            handle=handle,
            log=log,
            capture=capture,
        )
        return SandboxChild(wall)

    def wrapped(self, command: Sequence[str], directory: str, home: str) -> list[str]:
        """The command behind the wall, word by word."""
        where = view.checked(directory, self._private)
        program = program_of(command[0], directory)
        if program is None:
            raise AgentFailed(f"cannot start {command[0]!a}: no such program")
        roots = [root for one in (program, sys.executable) for root in view.roots_of(one, self._private)]
        walls = view.walls(
            network=self._network,
            # a terminal that is ours too must not be typed into from inside (TIOCSTI); one of its own may
            new_session=self._inner.name == "process",
            private=self._private,
            forgotten=self._forgotten,
        )
        openings = view.openings(
            readable=[*self._readable, *roots, _OURSELVES],
            writable=[home, where, *self._writable],
            directory=where,
            private=self._private,
        )
        # Not only --unsetenv: bwrap itself is the first process inside, and its environment can be read there.
        forgetting = ["env", *(word for name in self._forgotten for word in ("-u", name))] if self._forgotten else []
        return [*forgetting, "bwrap", *walls, *openings, "--", *command]

    def _home(self, session: str) -> str:
        if not _SESSION.fullmatch(session):
            raise UsageError("a sandbox needs the session's id, which names its home")
        home = Path(os.path.realpath(self._homes)) / session
        private_directories.make_trusted(home)
        return str(home)

    def probe(self, handle: str) -> Probe:
        seen = self._inner.probe(handle)
        return structs.replace(seen, exit=unwrap_exit(seen.exit)) if seen.exit is not None else seen

    def deliver(self, handle: str, text: str) -> None:
        self._inner.deliver(handle, text)

    def destroy(self, handle: str) -> None:
        self._inner.destroy(handle)

    def attach_command(self, handle: str) -> list[str] | None:
        return self._inner.attach_command(handle)

    def attach(self, handle: str) -> list[str] | None:
        return self._inner.attach(handle)

    def reattach(self, handle: str) -> SandboxChild | None:
        wall = self._inner.reattach(handle)
        return SandboxChild(wall) if wall is not None else None

    def orphans(self, session: str) -> list[int]:
        return self._inner.orphans(session)

    def end(self, pids: Sequence[int], *, seconds: float) -> None:
        self._inner.end(pids, seconds=seconds)

    def supervisor(self) -> str:
        return self._inner.supervisor()

    def supervisor_of(self, pid: int, session: str) -> int | None:
        return self._inner.supervisor_of(pid, session)

    def signal(self, pid: int, number: int) -> bool:
        return self._inner.signal(pid, number)
