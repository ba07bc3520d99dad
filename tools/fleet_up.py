"""What compose.yaml describes, as plain processes on this machine: PostgreSQL, migrate, the server, two workers.

    tools/fleet_up.py                         until Ctrl-C
    tools/fleet_up.py -- COMMAND ...          until COMMAND ends; its exit code is ours

The commands and the environment are those of compose.yaml; only addresses differ: everything is on the loopback, with
ports that are free, and in a directory of its own that goes again. COMMAND finds RELIGHT_STORE, RELIGHT_SERVER (the
address of the pages), RELIGHT_SERVER_TOKEN (a file) and RELIGHT_FLEET_PIDS in its environment. Whatever happens, every
process that was started is ended: asked first, then killed.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import yaml  # type: ignore[import-untyped]

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.support.postgres_server import Server, free_port, running  # noqa: E402 - found from the line above

UP_SECONDS: Final = 60.0
DRAIN_SECONDS: Final = 30.0
_LOOK_SECONDS: Final = 0.05


def services() -> dict[str, Any]:
    """Those of compose.yaml, merged as a composer would."""
    found: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))["services"]
    return found


def command_of(service: dict[str, Any], port: int | None = None) -> list[str]:
    """As the image would run it: its entry point is relight. The server's port is another, and the loopback's."""
    words = [str(word) for word in service["command"]]
    if port is not None:
        words[words.index("--port") + 1] = str(port)
        words[words.index("--host") + 1] = "127.0.0.1"
        words.remove("--insecure-host")
    return [sys.executable, "-P", "-m", "relight.cli", *words]


def environment_of(service: dict[str, Any], postgres: Server, home: Path) -> dict[str, str]:
    """Of a process in the place of a container: its own home, the database where it really is."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("RELIGHT_", "XDG_"))}
    given = {name: str(value) for name, value in service["environment"].items()}
    given["RELIGHT_STORE"] = given["RELIGHT_STORE"].replace("postgres:5432", f"127.0.0.1:{postgres.port}")
    given["PGPASSWORD"] = "not-asked-for"  # this server trusts the loopback
    return {**ours, **given, "HOME": str(home), "XDG_DATA_HOME": str(home / "data"), "PYTHONUNBUFFERED": "1"}


class Fleet:
    """Everything that runs; `end` it."""

    def __init__(self, postgres: Server, home: Path) -> None:
        self.home = home
        self.postgres = postgres
        self.started: list[tuple[str, subprocess.Popen[bytes]]] = []
        self.environment: dict[str, str] = {}
        self.address = ""

    def up(self) -> None:
        """In the order that compose.yaml asks for; returns when all of them do their work."""
        described = services()
        self.environment = environment_of(described["server"], self.postgres, self.home)
        self.postgres.execute("CREATE DATABASE relight")
        subprocess.run(
            command_of(described["migrate"]), env=self.environment, check=True, timeout=UP_SECONDS, stdout=sys.stderr
        )
        self.address = f"http://127.0.0.1:{self._serve(described['server'])}"
        for number in range(described["worker"]["deploy"]["replicas"]):
            self._start(f"worker-{number + 1}", described["worker"])
        _wait(self._healthy, "the server answers")
        _wait(self._all_work, "all workers are at work")

    def _serve(self, service: dict[str, Any]) -> int:
        port = free_port()
        self._start("server", service, port)
        return port

    def _start(self, name: str, service: dict[str, Any], port: int | None = None) -> None:
        with (self.home / f"{name}.log").open("wb") as log:
            started = subprocess.Popen(
                command_of(service, port),
                env=environment_of(service, self.postgres, self.home),
                cwd=self.home,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.started.append((name, started))

    def _healthy(self) -> bool:
        self._check_alive()
        try:
            with urllib.request.urlopen(f"{self.address}/healthz", timeout=5) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def _all_work(self) -> bool:
        self._check_alive()
        logs = [(self.home / f"{name}.log").read_text(errors="replace") for name, _ in self.started]
        return sum("serves default" in log for log in logs) == len(self.started) - 1

    def _check_alive(self) -> None:
        for name, process in self.started:
            if process.poll() is not None:
                said = (self.home / f"{name}.log").read_text(errors="replace")[-3000:]
                raise SystemExit(f"{name} ended with {process.returncode}:\n{said}")

    @property
    def handed(self) -> dict[str, str]:
        """What a command is told."""
        token = next((self.home / "data" / "relight").rglob("token"), None)
        return {
            **self.environment,
            "RELIGHT_SERVER": self.address,
            "RELIGHT_SERVER_TOKEN": str(token or ""),
            "RELIGHT_FLEET_PIDS": " ".join(f"{name}={process.pid}" for name, process in self.started),
        }

    def end(self) -> None:
        """Workers drain, the server closes; what does not is killed, with all that it started."""
        for _, process in reversed(self.started):
            if process.poll() is None:
                process.terminate()
        deadline = time.monotonic() + DRAIN_SECONDS
        for _, process in reversed(self.started):
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _wait(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + UP_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit(f"not within {UP_SECONDS:.0f} s: {what}")
        threading.Event().wait(_LOOK_SECONDS)


@contextmanager
def fleet() -> Iterator[Fleet]:
    """Up, and down again."""
    with ExitStack() as stack:
        postgres = stack.enter_context(running(own=True))
        home = Path(tempfile.mkdtemp(prefix="relight-fleet-"))
        stack.callback(shutil.rmtree, home, ignore_errors=True)
        made = Fleet(postgres, home)
        stack.callback(made.end)  # a start that fails ends what it began
        made.up()
        yield made


def main(words: Sequence[str]) -> int:
    """Run until the command, or a person, says so."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    command = list(words[words.index("--") + 1 :]) if "--" in words else []
    with fleet() as up:
        for name, process in up.started:
            print(f"{name}: pid {process.pid}", file=sys.stderr)
        print(f"RELIGHT_STORE={up.environment['RELIGHT_STORE']}\npages: {up.address}", file=sys.stderr)
        if command:
            return subprocess.run(command, env=up.handed, check=False).returncode
        try:
            signal.pause()
        except KeyboardInterrupt:
            return 0
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
