"""A spawned child process: its exit, its signals, its output and its use of the terminal.

The child starts in the background of our terminal, so that Ctrl-C reaches the supervisor, which can ask first and kill
second. A program that reads from the terminal or sets its mode is stopped by the kernel (SIGTTIN, SIGTTOU). We then
make it the foreground group, as a shell would, and continue it; from then on the terminal is its own.
"""

from __future__ import annotations

import os
import signal
import subprocess
from typing import Final

from relight.ports.runtime import Exit
from relight.runtimes.process import guard
from relight.runtimes.process.output import Lines, Log, Stream
from relight.runtimes.process.subreaper import SUBREAPER
from relight.runtimes.process.terminal import give_terminal, in_foreground

LAST_LINES: Final = 20
LAST_LINE_BYTES: Final = 400
_READER_SECONDS: Final = 1.0
_WANTS_TERMINAL: Final = (signal.SIGTTIN, signal.SIGTTOU)
_STDOUT: Final = 1
_STDERR: Final = 2


class ProcessChild:
    """A child of this process, leader of its own process group."""

    handle = ""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        *,
        errors: int,
        output: int | None,
        log: Log | None,
        guarded_by: subprocess.Popen[bytes] | None = None,
    ) -> None:
        self._process, self._log, self._guard = process, log, guarded_by
        self._exit: Exit | None = None
        self._last = Lines(line_bytes=LAST_LINE_BYTES, count=LAST_LINES)
        self._output = Lines()
        self._streams = [Stream(errors, _STDERR, lines=self._last, log=log, name="relight-stderr")]
        if output is not None:
            self._streams.append(Stream(output, _STDOUT, lines=self._output, log=log, name="relight-stdout"))
        self.pid = process.pid
        self.holds_terminal = False

    def poll(self) -> Exit | None:
        if self._exit is not None:
            return self._exit
        pid, status = os.waitpid(self.pid, os.WNOHANG | os.WUNTRACED)
        if pid == 0:
            for stream in self._streams:
                stream.resize()
            SUBREAPER.reap()
            return None
        if os.WIFSTOPPED(status):
            self._stopped(os.WSTOPSIG(status))
            return None
        code = os.waitstatus_to_exitcode(status)
        self._process.returncode = code
        self._exit = Exit(signal=-code) if code < 0 else Exit(code=code)
        SUBREAPER.ended(self.pid)
        if self._guard is not None:
            guard.release(self._guard)
        return self._exit

    def _stopped(self, by: int) -> None:
        if by in _WANTS_TERMINAL:
            # If we are in the background ourselves the terminal is not ours to give: it stays stopped until `fg`.
            if in_foreground():
                give_terminal(self.pid)
                self.holds_terminal = True
                self.signal(signal.SIGCONT)
            return
        if by == signal.SIGTSTP and self.holds_terminal:
            give_terminal(os.getpgrp())
            # Ctrl-Z stopped only the child. To the shell we are one job: stop too, so that it prompts; on `fg` we
            # are continued here and continue the child.
            os.kill(os.getpid(), signal.SIGSTOP)
            give_terminal(self.pid)
            self.signal(signal.SIGCONT)

    def signal(self, number: int) -> None:
        try:
            os.killpg(self.pid, number)
        except (ProcessLookupError, PermissionError):
            return  # no process of the group is left that we may signal

    def last_lines(self) -> list[str]:
        self._streams[0].join(_READER_SECONDS)
        return self._last.peek()

    def output(self) -> list[str]:
        if self._exit is not None:
            self._streams[-1].join(_READER_SECONDS)
        return self._output.take()

    def close(self) -> None:
        if self.holds_terminal:
            give_terminal(os.getpgrp())
            self.holds_terminal = False
        for stream in self._streams:
            stream.join(_READER_SECONDS)
        if self._log is not None:
            self._log.close()
        SUBREAPER.reap(now=True)
