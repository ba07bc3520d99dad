"""`relight serve` as a process of its own, and a program for it to start."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import relight
from tests.support.shell import Shell, command, environment, eventually

PROGRAM = """
import os, sys, time, relight
with relight.open() as rl, rl.session("job", lease_seconds=5) as s:
    if s.is_new:
        s.append({"role": "user", "content": "begin"})
    while not os.path.exists(os.path.join(os.environ["STOPS"], s.name or s.id)):
        time.sleep(0.02)
    s.append({"role": "assistant", "content": "went on"})
    s.complete("done")
"""


_started: list[subprocess.Popen[str]] = []


def end_those_left() -> list[int]:
    """End the servers that a test left running, when it failed for instance; their process ids."""
    left = [process for process in _started if process.poll() is None]
    for process in left:
        process.kill()
        process.wait()
    _started.clear()
    return [process.pid for process in left]


class Server:
    """A server process of its own."""

    def __init__(self, shell: Shell, *words: str, **more: str) -> None:
        self.shell, self.words, self.more = shell, words, more
        self.start()

    def start(self) -> None:
        self.errors = self.shell.directory.parent / "serve.err"
        with self.errors.open("a") as errors:
            self.process = subprocess.Popen(
                command("serve", "--port", "0", "--no-open", *self.words),
                env=environment(self.shell.store, **self.more),
                cwd=self.shell.directory,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        _started.append(self.process)
        assert self.process.stdout is not None
        self.link = self.process.stdout.readline().strip()
        assert self.link.startswith("http"), self.errors.read_text()
        self.base = self.link.partition("/login")[0]
        self.token = (Path(f"{self.shell.store}.run") / "server" / "token").read_text().strip()
        eventually(lambda: self.call("GET", "/healthz")[0] == 200, what="the server answering")

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        data = json.dumps(body).encode() if body is not None else None
        asked = urllib.request.Request(self.base + path, data=data, method=method)
        asked.add_header("Authorization", f"Bearer {self.token}")
        if data is not None:
            asked.add_header("Content-Type", "application/json")
        for name, value in headers.items():
            asked.add_header(name.replace("_", "-"), value)
        try:
            with urllib.request.urlopen(asked, timeout=60) as answered:
                return answered.status, json.loads(answered.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())
        except (urllib.error.URLError, ConnectionError):
            return 0, None

    def __enter__(self) -> Server:
        return self

    def __exit__(self, kind: type[BaseException] | None, *about: object) -> None:
        """Whatever happened, no process is left; one that should have ended well is asked how it did."""
        if kind is None and self.process.poll() is None:
            self.close()
        elif self.process.poll() is None:
            self.kill()

    def kill(self) -> None:
        assert self.process.stdout is not None
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def close(self) -> None:
        assert self.process.stdout is not None
        self.process.send_signal(signal.SIGINT)
        assert self.process.wait(60) in (0, 130), self.errors.read_text()
        self.process.stdout.close()


class Place:
    """A directory with the program in it, a store, and where the program looks whether it may end."""

    def __init__(self, base: Path) -> None:
        self.stops = base / "stops"
        self.stops.mkdir()
        self.shell = Shell(base / "store" / "p.db", base / "shop")
        self.shell.directory.mkdir()
        (self.shell.directory / "agent.py").write_text(PROGRAM)

    def serve(self, **more: str) -> Server:
        return Server(self.shell, STOPS=str(self.stops), **more)

    def begin(self, server: Server, name: str) -> Any:
        body = {"command": [sys.executable, "agent.py"], "name": name, "labels": {"team": "web"}}
        return server.call("POST", "/api/sessions", {**body, "directory": str(self.shell.directory)})

    def may_end(self, *names: str) -> None:
        for name in names:
            (self.stops / name).touch()

    def close(self, server: Server) -> None:
        """Nothing is left behind."""
        with relight.open(self.shell.store) as rl:
            self.may_end(*(name for one in rl.sessions.list() for name in (one.id, one.title)))
            eventually(
                lambda: not any(one.status in ("working", "spawning") for one in rl.sessions.list()), what="silence"
            )
        server.close()


def reaches(server: Server, name: str, *statuses: str) -> Any:
    def there() -> Any:
        found = server.call("GET", f"/api/sessions/{name}")[1]
        return found if found and found.get("status") in statuses else None

    return eventually(there, what=f"{name} being {statuses}")
