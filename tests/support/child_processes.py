"""Real processes to kill, stop and take over; and waiting for a condition with a bound."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
BOUND_SECONDS = 60.0


def wait_until(what: str, condition: Callable[[], Any], *, bound_seconds: float = BOUND_SECONDS) -> Any:
    """The first true value of `condition`; a failure that says what was waited for."""
    end = time.monotonic() + bound_seconds
    while not (value := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"waited {bound_seconds} s for {what}")
        time.sleep(0.002)
    return value


def spin(seconds: float) -> None:
    """A moment that is not a round number of scheduler ticks."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


class Child:
    """One forked process."""

    def __init__(self, fork_server: ForkServer, pid: int) -> None:
        self.fork_server = fork_server
        self.pid = pid
        self.status: int | None = None
        self.said = ""

    def signal(self, number: int) -> None:
        """Send it a signal."""
        os.kill(self.pid, number)

    def wait(self) -> int:
        """Its wait status, once it has ended."""
        if self.status is None:
            answer = self.fork_server.ask({"wait": self.pid})
            self.status, self.said = answer["status"], answer["said"]
        return self.status

    def kill(self) -> None:
        """SIGKILL, and wait."""
        self.signal(signal.SIGKILL)
        self.wait()

    @property
    def was_killed(self) -> bool:
        """Did SIGKILL end it?"""
        return os.WIFSIGNALED(self.wait()) and os.WTERMSIG(self.wait()) == signal.SIGKILL


class ForkServer:
    """See tests/support/programs/fork_server.py."""

    def __init__(self) -> None:
        path = os.pathsep.join([*os.environ.get("PYTHONPATH", "").split(os.pathsep), str(ROOT)]).strip(os.pathsep)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.programs.fork_server"],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": path, "RELIGHT_HINTS": "0"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, request: dict[str, Any]) -> Any:
        """One request, one answer."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def run(self, name: str, fault: str = "", **arguments: Any) -> Child:
        """Start a program."""
        options = {key: str(value) if isinstance(value, Path) else value for key, value in arguments.items()}
        return Child(self, self.ask({"run": name, "with": options, "fault": fault})["pid"])

    def close(self) -> None:
        """End it, and what it has started."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=BOUND_SECONDS)
        self._process.stdout.close()


def lines_of(path: Path) -> list[str]:
    """Whole lines so far."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return text[: text.rfind("\n") + 1].splitlines()
