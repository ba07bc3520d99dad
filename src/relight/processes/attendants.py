"""Attendants: the processes in which a worker supervises its sessions, one process per session.

Each attendant has a control pipe from its worker: a byte asks it to stop, and so does EOF, which comes when the worker
dies. It then stops its program and requeues the session. A status pipe carries its exit code back. Its output is
appended to a log beside the store.

Most of the start-up time of a Python process is imports, so attendants are forked from a fork server that has done
them. If the fork server dies, its children continue and the next request starts another one. Where forking is not safe
each attendant is a new interpreter.
"""

from __future__ import annotations

import array
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from relight.ports.runtime import STORE_VARIABLE
from relight.system.machine import open_log

OWNER_VARIABLE: Final = "RELIGHT_ATTEND"
WORKER_VARIABLE: Final = "RELIGHT_WORKER"
FORK_SERVER: Final = "--fork-server"
"""instead of a session: run as the fork server of the worker on standard input"""
LENGTH_BYTES: Final = 4
FILES: Final = 3
"""descriptors sent with each request: control pipe, status pipe, log"""
_LOG: Final = "supervisor.log"
_LOST_CODE: Final = -signal.SIGKILL
"""exit code used when the fork server died before reporting one"""
_CLOSE_SECONDS: Final = 5.0


class ForkRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request to the fork server: the attendant's arguments, and the owner id that holds the lease."""

    words: list[str]
    owner: str


class ForkedAttendant:
    """An attendant made by the fork server; not our child, so its exit code is read from the status pipe."""

    def __init__(self, control: int, status: int) -> None:
        self._control, self._status = control, status
        os.set_blocking(status, False)
        self._reported = b""
        self._code: int | None = None

    def poll(self) -> int | None:
        while self._code is None:
            try:
                data = os.read(self._status, 64)
            except BlockingIOError:
                return None
            self._reported += data
            if not data:
                self._code = int(self._reported) if self._reported else _LOST_CODE
                os.close(self._control)
                os.close(self._status)
        return self._code

    def drain(self) -> None:
        if self._code is None:
            _ask_to_stop(self._control)


class StartedAttendant:
    """An attendant with an interpreter of its own, a child of this process."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def poll(self) -> int | None:
        code = self._process.poll()
        if code is not None and self._process.stdin is not None:
            self._process.stdin.close()
            self._process.stdin = None
        return code

    def drain(self) -> None:
        if self._process.stdin is not None:
            _ask_to_stop(self._process.stdin.fileno())


def _ask_to_stop(pipe: int) -> None:
    with contextlib.suppress(BrokenPipeError):  # it has ended
        os.write(pipe, b"\n")


class ProcessAttendants:
    """Starts the attendants of one worker on one store."""

    def __init__(
        self,
        url: str,
        worker: str,
        run_directory: Callable[[str], Path],
        environment: Mapping[str, str],
        *,
        forks: bool = sys.platform == "linux",
    ) -> None:
        """`forks`: use a fork server. Only on Linux: elsewhere system libraries start threads that a fork loses."""
        self._url = url
        self._worker = worker
        self._run_directory = run_directory
        self._environment = environment
        self._forks = forks
        self._fork_server: _ForkServer | None = None

    def start(self, session: str, *, owner: str | None, retries: int | None) -> ForkedAttendant | StartedAttendant:
        request = ForkRequest(words=[session, *([str(retries)] if retries is not None else [])], owner=owner or "")
        log = open_log(self._run_directory(session) / _LOG)
        try:
            if not self._forks:
                return self._popen(["relight.processes.attend", *request.words], log, {OWNER_VARIABLE: request.owner})
            for is_last_try in (False, True):
                if self._fork_server is None:
                    self._fork_server = _ForkServer(self._base())
                try:
                    return self._fork_server.fork(request, log)
                except (BrokenPipeError, ConnectionResetError):
                    # The fork server was killed since the last request. Nothing was forked: start another, once.
                    self.close()
                    if is_last_try:
                        raise
        finally:
            os.close(log)
        raise AssertionError("returned, or raised")

    def tidy(self) -> StartedAttendant:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            return self._popen(["relight.processes.sweep", f"worker {self._worker}"], nowhere, {})
        finally:
            os.close(nowhere)

    def close(self) -> None:
        server, self._fork_server = self._fork_server, None
        if server is not None:
            server.close()

    def _base(self) -> dict[str, str]:
        # The address goes into the environment, not into argv: it may hold a password, and argv is public.
        inherited = {name: value for name, value in self._environment.items() if name != "RELIGHT_OWNER"}
        return {**inherited, STORE_VARIABLE: self._url, WORKER_VARIABLE: self._worker}

    def _popen(self, words: list[str], log: int, more: Mapping[str, str]) -> StartedAttendant:
        process = subprocess.Popen(
            _python(*words),
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            process_group=0,
            env={**self._base(), **more},
        )
        return StartedAttendant(process)


class _ForkServer:
    """The fork server's process, and the socket to it."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                _python("relight.processes.attend", FORK_SERVER),
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                process_group=0,
                env=environment,
            )

    def fork(self, request: ForkRequest, log: int) -> ForkedAttendant:
        """Request an attendant without waiting for it. One that is never forked looks like one that was killed."""
        child_control, control = os.pipe()
        status, child_status = os.pipe()
        try:
            body = msgspec.json.encode(request)
            sent = [len(body).to_bytes(LENGTH_BYTES, "big"), body]
            files = array.array("i", [child_control, child_status, log])
            self._socket.sendmsg(sent, [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files)])
        except BaseException:
            os.close(control)
            os.close(status)
            raise
        finally:
            # Our copies of the child's ends: left open, the status pipe would never reach EOF.
            os.close(child_control)
            os.close(child_status)
        return ForkedAttendant(control, status)

    def close(self) -> None:
        """Close the socket, which ends the fork server; kill it if it does not exit in time."""
        self._socket.close()
        try:
            self._process.wait(_CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _python(*words: str) -> list[str]:
    return [sys.executable, "-P", "-m", *words]
