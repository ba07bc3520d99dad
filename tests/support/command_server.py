"""Runs the command in real processes that need not start an interpreter: forks of one that has imported it.

Most of a short `relight list` is Python starting and importing. The server imports once; each command is a fork of it
with its own standard streams, environment and working directory, and ends as any process does. What an interpreter
decides at its start (encodings, import paths) is fixed by then: a command that asks for another is started anew.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import selectors
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

PRELOADED = (
    "cli",
    "library",
    "supervision",
    "history",
    "operations",
    "agents",
    "runtimes",
    "workspaces",
    "stores.sqlite",
)
"""the packages of relight that most commands need"""
_FIXED_AT_START = ("PYTHON", "LANG", "LC_")


class CommandServer:
    """The process that forks, for one environment of interpreters; started at the first command."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._channel: socket.socket | None = None
        self._fixed: dict[str, str] = {}

    def run(
        self, words: list[str], *, env: dict[str, str], cwd: Path, stdin: str, seconds: float
    ) -> subprocess.CompletedProcess[str] | None:
        """The command's outcome; None where it needs an interpreter of its own, or the server is busy."""
        if "RELIGHT_FAULT" in env:  # fault points are armed when an interpreter imports them, for good
            return None
        fixed = {name: value for name, value in env.items() if name.startswith(_FIXED_AT_START)}
        if not self._lock.acquire(blocking=False):
            return None
        try:
            if self._channel is None:
                self._channel, self._fixed = _started(env), fixed
            if fixed != self._fixed or len(stdin) > 10_000:
                return None
            return _run(self._channel, words, env, cwd, stdin, seconds)
        finally:
            self._lock.release()


def _started(env: dict[str, str]) -> socket.socket:
    """A server; it ends when our end of its channel is closed, at the latest by our own end."""
    ours, theirs = socket.socketpair()
    words = [sys.executable, "-P", __file__, str(theirs.fileno())]
    # Without our variables: tests look for processes by them, and end those that they find.
    plain = {name: value for name, value in env.items() if name.startswith((*_FIXED_AT_START, "PATH", "HOME"))}
    # An interpreter looks at its streams once, when it starts: pipes here, because those of its forks will be pipes.
    pipe = subprocess.PIPE
    process = subprocess.Popen(words, pass_fds=[theirs.fileno()], env=plain, stdin=pipe, stdout=pipe, stderr=pipe)
    theirs.close()

    def end() -> None:
        ours.close()
        process.communicate()

    atexit.register(end)
    return ours


def _run(
    channel: socket.socket, words: list[str], env: dict[str, str], cwd: Path, stdin: str, seconds: float
) -> subprocess.CompletedProcess[str]:
    given, given_end = os.pipe()
    out, out_end = os.pipe()
    err, err_end = os.pipe()
    theirs = [given, out_end, err_end]
    request = json.dumps({"words": words, "env": env, "cwd": str(cwd)}).encode()
    socket.send_fds(channel, [len(request).to_bytes(4, "big")], theirs)
    channel.sendall(request)
    for one in theirs:
        os.close(one)
    with contextlib.suppress(BrokenPipeError):
        os.write(given_end, stdin.encode())
    os.close(given_end)
    pid = _number(channel)
    texts, in_time = _read_to_end((out, err), time.monotonic() + seconds)
    if not in_time:
        os.kill(pid, 9)
    status = _number(channel)
    if not in_time:
        raise subprocess.TimeoutExpired(words, seconds, texts[0], texts[1])
    return subprocess.CompletedProcess(words, status, *texts)


def _read_to_end(pipes: tuple[int, int], deadline: float) -> tuple[list[str], bool]:
    """What came out of both pipes, and whether both ended in time."""
    found = {one: bytearray() for one in pipes}
    with selectors.DefaultSelector() as selector:
        for one in pipes:
            selector.register(one, selectors.EVENT_READ)
        while selector.get_map() and (left := deadline - time.monotonic()) > 0:
            for key, _ in selector.select(left):
                if chunk := os.read(key.fd, 65_536):
                    found[key.fd] += chunk
                else:
                    selector.unregister(key.fd)
        ended = not selector.get_map()
    for one in pipes:
        os.close(one)
    return [text.decode().replace("\r\n", "\n") for text in found.values()], ended


def _number(channel: socket.socket) -> int:
    return int.from_bytes(_exactly(channel, 4), "big", signed=True)


def _exactly(channel: socket.socket, length: int) -> bytes:
    found = b""
    while len(found) < length:
        chunk = channel.recv(length - len(found))
        if not chunk:
            raise EOFError("the other end of the command server is gone")
        found += chunk
    return found


def serve(channel: socket.socket) -> dict[str, Any] | None:
    """Fork for each request; returns the request in the fork that is to run it, None when nobody asks any more."""
    while True:
        prefix, descriptors, _, _ = socket.recv_fds(channel, 4, 3)
        if not prefix:
            return None
        request: dict[str, Any] = json.loads(_exactly(channel, int.from_bytes(prefix, "big")))
        pid = os.fork()
        if pid == 0:
            channel.close()
            for number, descriptor in enumerate(descriptors):
                os.dup2(descriptor, number)
                os.close(descriptor)
            return request
        for descriptor in descriptors:
            os.close(descriptor)
        channel.sendall(pid.to_bytes(4, "big"))
        _, status = os.waitpid(pid, 0)
        channel.sendall(os.waitstatus_to_exitcode(status).to_bytes(4, "big", signed=True))


def main() -> int:
    """The server; and in each fork, the command."""
    for package in PRELOADED:
        directory = Path(*importlib.import_module(f"relight.{package}").__path__)
        for path in directory.rglob("*.py"):
            words = path.relative_to(directory).with_suffix("").parts
            if not words[-1].startswith("__"):
                importlib.import_module(".".join(("relight", package, *words)))
    importlib.import_module("relight.stores.sqlite.store")
    gc.freeze()
    request = serve(socket.socket(fileno=int(sys.argv[1])))
    if request is None:
        return 0
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    sys.argv = ["relight", *request["words"]]
    return int(importlib.import_module("relight.cli.main").main())


if __name__ == "__main__":
    sys.exit(main())
