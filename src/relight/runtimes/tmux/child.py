"""A process in a tmux pane. tmux is its parent and reports its exit; the process table shows whether it is alive.

If the tmux server is gone the exit is unknown. It is reported as SIGHUP, which the kernel sent when the terminal
closed, with a note among the last lines. A process that outlives its terminal is ended, because it cannot be reached.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Final

from relight.ports.runtime import Exit
from relight.runtimes.tmux.server import Pane, Server
from relight.system.processes import environment_of, marker, members_of, start_of

LAST_LINES: Final = 20
LINE_CHARACTERS: Final = 400
READ_BYTES: Final = 32 * 1024 * 1024
"""of output per call"""
_REPORT_SECONDS: Final = 2.0
"""within which tmux reports the end of a process"""
_HANG_UP_SECONDS: Final = 3.0
_SETTLE_SECONDS: Final = 0.05
"""in which the last output gets from tmux into the log"""
_LOG_SECONDS: Final = 3.0
"""for which the first output is waited for after the end of a program that printed something"""


class Tail:
    """Reads a log from its present end on; notices a rotation by the inode."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._inode, self._at, self._rest = 0, 0, b""
        self.has_read = False
        if path.exists():
            self._inode, self._at = path.stat().st_ino, path.stat().st_size

    def read(self) -> list[str]:
        """Whole lines since the last call."""
        try:
            with self._path.open("rb") as file:
                inode = os.fstat(file.fileno()).st_ino
                self._inode, self._at = inode, self._at if inode == self._inode else 0
                file.seek(self._at)
                data = file.read(READ_BYTES)
        except OSError:
            return []
        self._at += len(data)
        self.has_read = self.has_read or bool(data)
        *whole, rest = (self._rest + data).split(b"\n")
        self._rest = rest[:READ_BYTES]
        return [_text(line) for line in whole]

    def rest(self) -> list[str]:
        """The unterminated last line, once no more output can come."""
        rest, self._rest = self._rest, b""
        return [_text(rest)] if rest else []


def _text(line: bytes) -> str:
    return line.rstrip(b"\r").decode("utf-8", "backslashreplace")


class TmuxChild:
    """A process in a pane of our tmux server."""

    holds_terminal = False  # the pane's terminal is not ours

    def __init__(self, server: Server, handle: str, pane: Pane, *, session: str, tail: Tail | None) -> None:
        self.handle, self.pid = handle, pane.pid
        self._server, self._pane, self._session = server, pane, session
        self._start, self._server_start = start_of(pane.pid), start_of(pane.server)
        self._exit: Exit | None = None
        self._last: list[str] = []
        self._gone_since = 0.0
        self._hung_up_since = 0.0
        self._tail = tail

    def poll(self) -> Exit | None:
        if self._exit is not None:
            return self._exit
        if self._start and start_of(self.pid) == self._start:
            if start_of(self._pane.server) != self._server_start:
                self._hang_up()
            return None
        pane = self._server.pane(self.handle)
        if pane is not None and pane.pid == self.pid and pane.exit is not None:
            return self._ended(pane.exit, self._server.screen(pane))
        self._gone_since = self._gone_since or time.monotonic()
        # The kernel is ahead of tmux: the process is gone, but tmux may report its exit only a moment later.
        if pane is not None and pane.pid == self.pid and time.monotonic() - self._gone_since < _REPORT_SECONDS:
            return None
        if pane is not None and pane.pid == self.pid:
            note = "relight: this version of tmux does not report which signal ended it"
            return self._ended(Exit(signal=signal.SIGKILL), [*self._server.screen(pane), note])
        why = "its tmux session was removed or reused"
        if start_of(self._pane.server) != self._server_start:
            why = f"its tmux server (pid {self._pane.server}) ended"
        return self._ended(Exit(signal=signal.SIGHUP), [f"relight: {why}; its exit is unknown"])

    def _ended(self, exit: Exit, lines: list[str]) -> Exit:
        self._exit = exit
        self._last = [line[:LINE_CHARACTERS] for line in lines[-LAST_LINES:]]
        return exit

    def _hang_up(self) -> None:
        now = time.monotonic()
        if not self._hung_up_since:
            self._hung_up_since = now
            self.signal(signal.SIGHUP)
        elif now - self._hung_up_since > _HANG_UP_SECONDS:
            self.signal(signal.SIGKILL)

    def signal(self, number: int) -> None:
        try:
            if self._start and start_of(self.pid) == self._start:
                os.killpg(self.pid, number)
                return
            # The leader is gone, so the group's number may have been reused: signal only members with our marker.
            for pid in members_of(self.pid):
                if marker(self._session) in environment_of(pid):
                    os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            return  # no process of the group is left that we may signal

    def last_lines(self) -> list[str]:
        if self._exit is None:
            return [line[:LINE_CHARACTERS] for line in self._server.screen(self._pane)[-LAST_LINES:]]
        return self._last

    def output(self) -> list[str]:
        """Lines as the terminal received them, read from the log."""
        if self._tail is None:
            return []
        if self._exit is None:
            return self._tail.read()
        # The log writer is a process of its own, which may start only after a short program has ended (a busy machine).
        # If something is on the screen and nothing was ever logged, it is still to come.
        deadline, lines = time.monotonic() + _LOG_SECONDS, list[str]()
        while True:
            time.sleep(_SETTLE_SECONDS)
            lines += self._tail.read()
            expected = not self._tail.has_read and any(line.strip() for line in self._last)
            if not expected or time.monotonic() > deadline:
                return [*lines, *self._tail.rest()]

    def close(self) -> None:
        """The tmux session stays, with its screen, for a person to look at."""
