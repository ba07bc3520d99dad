"""Processes that attend to sessions: each is a supervisor of its own, told by its environment what to do.

A pipe leads to each of them. When this worker ends, however that happens, the pipe closes, and they put their sessions
back in line. What they print goes to a file beside the store.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from relight.ports.runtime import STORE_VARIABLE

DRAIN_SIGNAL: Final = signal.SIGUSR1
OWNER_VARIABLE: Final = "RELIGHT_ATTEND"
WORKER_VARIABLE: Final = "RELIGHT_WORKER"
_LOG: Final = "supervisor.log"


class ProcessAttendant:
    """One of them."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.pid = process.pid

    def poll(self) -> int | None:
        code = self._process.poll()
        if code is not None and self._process.stdin is not None:
            self._process.stdin.close()
            self._process.stdin = None
        return code

    def drain(self) -> None:
        self._process.send_signal(DRAIN_SIGNAL)


class ProcessAttendants:
    """Starts them, for one worker on one store."""

    def __init__(
        self, url: str, worker: str, run_directory: Callable[[str], Path], environment: Mapping[str, str]
    ) -> None:
        self._url = url
        self._worker = worker
        self._run_directory = run_directory
        self._environment = environment

    def start(self, session: str, *, owner: str | None, retries: int | None) -> ProcessAttendant:
        command = [sys.executable, "-P", "-m", "relight.cli.attend", session]
        command += [str(retries)] if retries is not None else []
        environment = {**self._base(), OWNER_VARIABLE: owner or ""}
        return self._popen(command, environment, self._run_directory(session) / _LOG)

    def tidy(self) -> ProcessAttendant:
        return self._popen([sys.executable, "-P", "-m", "relight.cli", "sweep"], self._base(), None)

    def _base(self) -> dict[str, str]:
        """The address is not an argument: it may hold a password, and arguments can be seen by others."""
        kept = {name: value for name, value in self._environment.items() if name != "RELIGHT_OWNER"}
        return {**kept, STORE_VARIABLE: self._url, WORKER_VARIABLE: self._worker}

    def _popen(self, command: list[str], environment: dict[str, str], log: Path | None) -> ProcessAttendant:
        path = log if log is not None else Path(os.devnull)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as kept:
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=kept, stderr=kept, process_group=0, env=environment
            )
        return ProcessAttendant(process)
