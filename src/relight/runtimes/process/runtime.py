"""Children of this process: no places, so nothing to attach to and nothing to type into."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from relight.errors import AgentFailed, Refused
from relight.ports.runtime import AGENT_VARIABLE, SESSION_VARIABLE, Probe
from relight.runtimes.process.child import ProcessChild
from relight.runtimes.process.output import Clean, Log
from relight.runtimes.process.subreaper import ADOPTED
from relight.runtimes.process.terminal import channel_like
from relight.system.processes import LocalProcesses

_PR_SET_PDEATHSIG: Final = 1
_STDOUT: Final = 1
_STDERR: Final = 2


class ProcessRuntime(LocalProcesses):
    """Children of this process. `clean`: what is kept of their output, text by text; else all of it."""

    name = "process"

    def __init__(self, clean: Clean | None = None) -> None:
        self._clean = clean

    def spawn(
        self,
        command: Sequence[str],
        *,
        directory: str,
        environment: Mapping[str, str],
        handle: str = "",
        log: Path | None = None,
        capture: bool = False,
    ) -> ProcessChild:
        """As the port says. A terminal that the program draws on itself is not logged: its screen is no log."""
        ADOPTED.begin()
        kept = self._opened(log)
        near_errors, far_errors = channel_like(_STDERR)
        through_us = capture or (kept is not None and not os.isatty(_STDOUT))
        near_output, far_output = channel_like(_STDOUT) if through_us else (None, None)
        try:
            process = subprocess.Popen(
                list(command),
                cwd=directory,
                env={**os.environ, **environment},
                stdout=far_output,
                stderr=far_errors,
                process_group=0,
                preexec_fn=_die_with(os.getpid(), _last_word(environment)),  # noqa: PLW1509 - one bound C call, no lock, no import
            )
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            for descriptor in (near_errors, near_output):
                if descriptor is not None:
                    os.close(descriptor)
            if kept is not None:
                kept.close()
            raise AgentFailed(f"cannot start {command[0]!a}: {error}") from None
        finally:
            os.close(far_errors)
            if far_output is not None:
                os.close(far_output)
        ADOPTED.started(process.pid, environment.get(SESSION_VARIABLE, ""))
        return ProcessChild(process, errors=near_errors, output=near_output, log=kept)

    def _opened(self, log: Path | None) -> Log | None:
        try:
            return Log(log, self._clean) if log is not None else None
        except OSError as error:
            raise AgentFailed(f"cannot write the log {log}: {error.strerror}") from None

    def probe(self, handle: str) -> Probe:
        return Probe(liveness="absent", text="a plain process has no place of its own")

    def deliver(self, handle: str, text: str) -> None:
        hints = [
            "an agent that can be typed to: relight run --runtime tmux -- COMMAND",
            "once it has ended: relight resume NAME TEXT",
        ]
        raise Refused("it runs as a plain process, which nothing can be typed into; nothing was sent", hints=hints)

    def destroy(self, handle: str) -> None:
        """There is no place to remove; what is left of a dead attempt is found by `orphans`."""

    def attach(self, handle: str) -> list[str] | None:
        return None

    def reattach(self, handle: str) -> ProcessChild | None:
        return None

    def end(self, pids: Sequence[int], *, seconds: float) -> None:
        super().end(pids, seconds=seconds)
        ADOPTED.bury(now=True)


def _last_word(environment: Mapping[str, str]) -> int:
    """What it gets when its supervisor dies. A program is asked to end. A coding agent is not: it would kill its tools
    and write that down as their result, and the model would never learn that the outcome is unknown."""
    return int(signal.SIGKILL if environment.get(AGENT_VARIABLE) else signal.SIGTERM)


def _die_with(parent: int, number: int) -> Callable[[], None] | None:
    """Linux: the child gets this signal when its supervisor dies, however that happens."""
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def between_fork_and_exec() -> None:
        prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)  # it died before the line above

    return between_fork_and_exec
