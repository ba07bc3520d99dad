"""The process runtime: children of the supervisor, with no terminal of their own to attach to or type into."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from relight.errors import AgentFailed, Refused
from relight.ports.runtime import AGENT_VARIABLE, SESSION_VARIABLE, Probe
from relight.runtimes.process import guard
from relight.runtimes.process.child import ProcessChild
from relight.runtimes.process.output import Clean, Log
from relight.runtimes.process.subreaper import SUBREAPER
from relight.runtimes.process.terminal import channel_like
from relight.system.linux_calls import end_with_parent
from relight.system.processes import LocalProcesses

_STDOUT: Final = 1
_STDERR: Final = 2


class ProcessRuntime(LocalProcesses):
    """Runs agents as children of this process. `clean` redacts their output before it is logged."""

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
        SUBREAPER.begin()
        number = _death_signal(environment)
        dying = end_with_parent(number)
        opened = self._open_log(log)
        errors, child_errors = channel_like(_STDERR)
        # A program that draws on the terminal itself is not logged: escape sequences of a screen are no log.
        through_us = capture or (opened is not None and not os.isatty(_STDOUT))
        output, child_output = channel_like(_STDOUT) if through_us else (None, None)
        try:
            process = subprocess.Popen(
                list(command),
                cwd=directory,
                env={**os.environ, **environment},
                stdout=child_output,
                stderr=child_errors,
                process_group=0,
                preexec_fn=dying,  # noqa: PLW1509 - one bound C call, no lock, no import
            )
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            for descriptor in (errors, output):
                if descriptor is not None:
                    os.close(descriptor)
            if opened is not None:
                opened.close()
            raise AgentFailed(f"cannot start {command[0]!r}: {error}") from None
        finally:
            os.close(child_errors)
            if child_output is not None:
                os.close(child_output)
        SUBREAPER.started(process.pid, environment.get(SESSION_VARIABLE, ""))
        guarded_by = guard.start(process.pid, number) if dying is None else None
        return ProcessChild(process, errors=errors, output=output, log=opened, guarded_by=guarded_by)

    def _open_log(self, log: Path | None) -> Log | None:
        try:
            return Log(log, self._clean) if log is not None else None
        except OSError as error:
            raise AgentFailed(f"cannot write the log {log}: {error.strerror}") from None

    def probe(self, handle: str) -> Probe:
        return Probe(liveness="absent", text="a plain process has no terminal of its own")

    def deliver(self, handle: str, text: str) -> None:
        hints = [
            "to type into an agent, run it in tmux: relight run --runtime tmux -- COMMAND",
            "once it has ended: relight resume NAME TEXT",
        ]
        raise Refused("a plain process has no terminal to type into; nothing was sent", hints=hints)

    def destroy(self, handle: str) -> None:
        """Nothing to remove: processes left by a dead attempt are found by `orphans`."""

    def attach(self, handle: str) -> list[str] | None:
        return None

    def reattach(self, handle: str) -> ProcessChild | None:
        return None

    def orphans(self, session: str) -> list[int]:
        return list(dict.fromkeys([*super().orphans(session), *SUBREAPER.left_by(session)]))

    def end(self, pids: Sequence[int], *, seconds: float) -> None:
        super().end(pids, seconds=seconds)
        SUBREAPER.reap(now=True)


def _death_signal(environment: Mapping[str, str]) -> int:
    # A program is asked to end. A coding agent is killed: asked, it would kill its tools and record that as their
    # result, and the model would never learn that the outcome is unknown.
    return int(signal.SIGKILL if environment.get(AGENT_VARIABLE) else signal.SIGTERM)
