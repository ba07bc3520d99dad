"""A process in a pane. tmux is its parent and knows how it ended; /proc tells whether it lives.

Where the server itself is gone nobody knows the exit any more: it counts as a hang-up, which is what the kernel sent
it, and its last words say so. A process that outlives its terminal is ended, because nobody could reach it.
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
"""of output at one call"""
_TOLD_SECONDS: Final = 2.0
"""between the end of a process and tmux knowing it"""
_HANG_UP_SECONDS: Final = 3.0
_SETTLE_SECONDS: Final = 0.05
"""in which the last output comes from tmux to the log"""


class Tail:
    """A log from its present end on, over one rotation at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._inode, self._at, self._rest = 0, 0, b""
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
        *whole, rest = (self._rest + data).split(b"\n")
        self._rest = rest[:READ_BYTES]
        return [_text(line) for line in whole]

    def rest(self) -> list[str]:
        """What has no newline at the end, once nothing more can come."""
        rest, self._rest = self._rest, b""
        return [_text(rest)] if rest else []


def _text(line: bytes) -> str:
    return line.rstrip(b"\r").decode("utf-8", "backslashreplace")


class TmuxChild:
    """One process in a pane of ours."""

    holds_terminal = False  # it has one of its own

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
        if pane is not None and pane.pid == self.pid and time.monotonic() - self._gone_since < _TOLD_SECONDS:
            return None
        if pane is not None and pane.pid == self.pid:
            note = "relight: this tmux does not tell which signal ended it"
            return self._ended(Exit(signal=signal.SIGKILL), [*self._server.screen(pane), note])
        why = "its place in tmux was removed or given to another"
        if start_of(self._pane.server) != self._server_start:
            why = f"its tmux server (pid {self._pane.server}) ended"
        return self._ended(Exit(signal=signal.SIGHUP), [f"relight: {why}; how it ended itself is not known"])

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
            for pid in members_of(self.pid):  # its number may belong to others by now
                if marker(self._session) in environment_of(pid):
                    os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            return  # nothing of the group is left that we may signal

    def last_lines(self) -> list[str]:
        if self._exit is None:
            return [line[:LINE_CHARACTERS] for line in self._server.screen(self._pane)[-LAST_LINES:]]
        return self._last

    def output(self) -> list[str]:
        """Lines as the terminal got them, from the log."""
        if self._tail is None:
            return []
        if self._exit is None:
            return self._tail.read()
        time.sleep(_SETTLE_SECONDS)
        return [*self._tail.read(), *self._tail.rest()]

    def close(self) -> None:
        """The place stays, with what it shows."""
