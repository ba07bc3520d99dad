"""Processes that attend to sessions: each is a supervisor of its own, told by its worker what to do.

A pipe leads to each of them: a byte asks it to stop, and so does its end, which comes when this worker ends, however
that happens; they then put their sessions back in line. Another pipe leads back, and says how it ended. What they print
goes to a file beside the store.

Most of the time that a process takes to start goes into imports. So one process, the nursery, imports everything and
then does nothing but fork: once for each session. It opens no store and has no thread, so that what is copied is code.
Should it die, those that it forked live on, and the next one is made. Where forking is not safe each is started anew.
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
NURSERY: Final = "--nursery"
"""in the place of a session: fork for each one that is asked for on standard input"""
LENGTH_BYTES: Final = 4
FILES: Final = 3
"""that come with each request: the pipe to it, the pipe from it, where it prints"""
_LOG: Final = "supervisor.log"
_LOST_CODE: Final = -signal.SIGKILL
"""of one that ended, and nobody was left to say how"""
_CLOSE_SECONDS: Final = 5.0


class ForkRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a nursery is asked for."""

    words: list[str]
    owner: str


class ForkedAttendant:
    """One that a nursery made, at the other end of two pipes."""

    def __init__(self, to_it: int, from_it: int) -> None:
        self._to_it, self._from_it = to_it, from_it
        os.set_blocking(from_it, False)
        self._said = b""
        self._code: int | None = None

    def poll(self) -> int | None:
        while self._code is None:
            try:
                said = os.read(self._from_it, 64)
            except BlockingIOError:
                return None
            self._said += said
            if not said:
                self._code = int(self._said) if self._said else _LOST_CODE
                os.close(self._to_it)
                os.close(self._from_it)
        return self._code

    def drain(self) -> None:
        if self._code is None:
            _ask_to_stop(self._to_it)


class StartedAttendant:
    """One with an interpreter of its own, started by this process."""

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
    """Starts them, for one worker on one store."""

    def __init__(
        self,
        url: str,
        worker: str,
        run_directory: Callable[[str], Path],
        environment: Mapping[str, str],
        *,
        forks: bool = sys.platform == "linux",
    ) -> None:
        """`forks`: elsewhere libraries of the system have threads that a fork would lose."""
        self._url = url
        self._worker = worker
        self._run_directory = run_directory
        self._environment = environment
        self._forks = forks
        self._nursery: _Nursery | None = None

    def start(self, session: str, *, owner: str | None, retries: int | None) -> ForkedAttendant | StartedAttendant:
        birth = ForkRequest(words=[session, *([str(retries)] if retries is not None else [])], owner=owner or "")
        log = open_log(self._run_directory(session) / _LOG)
        try:
            if not self._forks:
                return self._popen(["relight.processes.attend", *birth.words], log, {OWNER_VARIABLE: birth.owner})
            for is_last_try in (False, True):
                if self._nursery is None:
                    self._nursery = _Nursery(self._base())
                try:
                    return self._nursery.fork(birth, log)
                except (BrokenPipeError, ConnectionResetError):  # somebody ended it
                    self.close()
                    if is_last_try:
                        raise
        finally:
            os.close(log)
        raise AssertionError("returned, or raised")

    def tidy(self) -> StartedAttendant:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            return self._popen(["relight.cli", "sweep", "--due", "--by", f"worker {self._worker}"], nowhere, {})
        finally:
            os.close(nowhere)

    def close(self) -> None:
        nursery, self._nursery = self._nursery, None
        if nursery is not None:
            nursery.close()

    def _base(self) -> dict[str, str]:
        """The address is not an argument: it may hold a password, and arguments can be seen by others."""
        kept = {name: value for name, value in self._environment.items() if name != "RELIGHT_OWNER"}
        return {**kept, STORE_VARIABLE: self._url, WORKER_VARIABLE: self._worker}

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


class _Nursery:
    """The process that forks, and the socket to it."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                _python("relight.processes.attend", NURSERY),
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                process_group=0,
                env=environment,
            )

    def fork(self, birth: ForkRequest, log: int) -> ForkedAttendant:
        """At once: it is told, not waited for. One that is never born ends the pipe from it, as one that died."""
        its_end, to_it = os.pipe()
        from_it, its_word = os.pipe()
        try:
            body = msgspec.json.encode(birth)
            sent = [len(body).to_bytes(LENGTH_BYTES, "big"), body]
            files = array.array("i", [its_end, its_word, log])
            self._socket.sendmsg(sent, [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files)])
        except BaseException:
            os.close(to_it)
            os.close(from_it)
            raise
        finally:
            os.close(its_end)
            os.close(its_word)
        return ForkedAttendant(to_it, from_it)

    def close(self) -> None:
        """It leaves when the socket is closed."""
        self._socket.close()
        try:
            self._process.wait(_CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _python(*words: str) -> list[str]:
    return [sys.executable, "-P", "-m", *words]
