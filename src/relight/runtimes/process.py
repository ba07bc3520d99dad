"""The plain runtime: a child process on this machine, in a group of its own, that dies with its supervisor.

The terminal. The child starts in the background of our terminal, so that Ctrl-C reaches us and we can ask first and
kill second. A program that wants the terminal itself (it reads from it, or sets its mode) is stopped by the kernel at
that moment; we see it, hand the terminal over as a shell would, and let it go on. From then on it has the screen.

Its stderr passes through us: copied on at once, the last lines kept for the failure. Where ours is a terminal it gets a
terminal of its own for it, so that it looks the same to the program.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import termios
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from relight.errors import AgentFailed, Refused, UsageError
from relight.ports.runtime import SESSION_VARIABLE, SUPERVISOR_VARIABLE, Exit

LAST_LINES: Final = 20
LINE_BYTES: Final = 400
_PR_SET_PDEATHSIG: Final = 1
_LOOK_SECONDS: Final = 0.02
_READER_SECONDS: Final = 1.0
_WANTS_TERMINAL: Final = (signal.SIGTTIN, signal.SIGTTOU)


class ProcessChild:
    """One spawned process."""

    def __init__(self, process: subprocess.Popen[bytes], errors: int) -> None:
        self._process = process
        self._exit: Exit | None = None
        self._lines: deque[bytes] = deque(maxlen=LAST_LINES)
        self._reader = threading.Thread(target=self._copy, args=(errors,), name="relight-stderr", daemon=True)
        self._reader.start()
        self.pid = process.pid
        self.holds_terminal = False

    def poll(self) -> Exit | None:
        if self._exit is not None:
            return self._exit
        pid, status = os.waitpid(self.pid, os.WNOHANG | os.WUNTRACED)
        if pid == 0:
            return None
        if os.WIFSTOPPED(status):
            self._stopped(os.WSTOPSIG(status))
            return None
        code = os.waitstatus_to_exitcode(status)
        self._process.returncode = code
        self._exit = Exit(signal=-code) if code < 0 else Exit(code=code)
        return self._exit

    def _stopped(self, by: int) -> None:
        if by in _WANTS_TERMINAL:
            if _in_foreground():
                _give_terminal(self.pid)
                self.holds_terminal = True
                self.signal(signal.SIGCONT)
            return
        if by == signal.SIGTSTP and self.holds_terminal:
            _give_terminal(os.getpgrp())
            os.kill(os.getpid(), signal.SIGSTOP)  # we are one job: the shell gets its prompt, `fg` continues both
            _give_terminal(self.pid)
            self.signal(signal.SIGCONT)

    def signal(self, number: int) -> None:
        try:
            os.killpg(self.pid, number)
        except (ProcessLookupError, PermissionError):
            return  # nothing of the group is left that we may signal

    def last_lines(self) -> list[str]:
        self._reader.join(_READER_SECONDS)
        return [line[:LINE_BYTES].decode("utf-8", "backslashreplace") for line in list(self._lines)]

    def close(self) -> None:
        if self.holds_terminal:
            _give_terminal(os.getpgrp())
            self.holds_terminal = False
        self._reader.join(_READER_SECONDS)

    def _copy(self, errors: int) -> None:
        """Pass on what comes, keep the last lines. Ends with the last process that holds the other end."""
        ours, rest = sys.stderr.fileno(), b""
        while chunk := _read(errors):
            _write_all(ours, chunk)
            *whole, rest = (rest + chunk).split(b"\n")
            self._lines.extend(line.rstrip(b"\r") for line in whole if line.strip())
            rest = rest[-LINE_BYTES:]
        if rest.strip():
            self._lines.append(rest)
        os.close(errors)


class ProcessRuntime:
    """Children of this process."""

    name = "process"

    def check(self, command: Sequence[str], directory: str) -> None:
        if not Path(directory).is_dir():
            raise UsageError(f"no such directory: {directory}")
        if not command:
            raise UsageError("no command given", hints=["relight run -- python agent.py"])
        if shutil.which(command[0], path=_search_path(directory, command[0])) is None:
            raise UsageError(f"no program called {command[0]!a}", hints=["the command stands after --, word by word"])

    def spawn(self, command: Sequence[str], *, directory: str, environment: Mapping[str, str]) -> ProcessChild:
        ours, theirs = _error_channel()
        try:
            process = subprocess.Popen(
                list(command),
                cwd=directory,
                env={**os.environ, **environment},
                stderr=theirs,
                process_group=0,
                preexec_fn=_die_with(os.getpid()),  # noqa: PLW1509 - one bound C call, no lock, no import
            )
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            os.close(ours)
            raise AgentFailed(f"cannot start {command[0]!a}: {error}") from None
        finally:
            os.close(theirs)
        return ProcessChild(process, ours)

    def orphans(self, session: str) -> list[int]:
        family = set(_ancestors(os.getpid()))
        return [pid for pid in _all_pids() if pid not in family and _named(session) in _environment(pid)]

    def end(self, pids: Sequence[int], *, seconds: float) -> None:
        known = {pid: _start_of(pid) for pid in pids}
        for number, patience in ((signal.SIGTERM, seconds), (signal.SIGKILL, seconds)):
            deadline = time.monotonic() + patience
            left = [pid for pid, start in known.items() if start and _start_of(pid) == start]
            for pid in left:
                self.signal(pid, number)
            while time.monotonic() < deadline and any(_start_of(pid) == known[pid] for pid in left):
                time.sleep(_LOOK_SECONDS)

    def supervisor(self) -> str:
        return f"{os.getpid()}:{_start_of(os.getpid())}"

    def supervisor_of(self, pid: int, session: str) -> int | None:
        prefix, environment = SUPERVISOR_VARIABLE.encode() + b"=", _environment(pid)
        for entry in environment if _named(session) in environment else ():
            if entry.startswith(prefix):
                number, _, start = entry[len(prefix) :].decode("ascii", "replace").partition(":")
                if number.isdigit() and start and _start_of(int(number)) == start:
                    return int(number)
        return None

    def signal(self, pid: int, number: int) -> bool:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return False
        except PermissionError:
            raise Refused(f"pid {pid} belongs to another user") from None
        return True


# -- starting -------------------------------------------------------------------------------------------------


def _die_with(parent: int) -> Callable[[], None] | None:
    """Linux: the child is asked to end when its supervisor dies, however that happens."""
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def between_fork_and_exec() -> None:
        prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)  # it died before the line above

    return between_fork_and_exec


def _search_path(directory: str, program: str) -> str | None:
    """A program given by a path is meant from the directory it runs in."""
    return directory if "/" in program and not program.startswith("/") else None


def _error_channel() -> tuple[int, int]:
    """Our end and the child's end of its stderr."""
    if not sys.stderr.isatty():
        return os.pipe()
    ours, theirs = os.openpty()
    mode = termios.tcgetattr(theirs)
    mode[1] &= ~termios.OPOST  # our own terminal does this; twice would show
    termios.tcsetattr(theirs, termios.TCSANOW, mode)
    size = fcntl.ioctl(sys.stderr.fileno(), termios.TIOCGWINSZ, b"\0" * 8)
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, size)
    return ours, theirs


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65_536)
    except OSError:
        return b""  # a terminal whose other end is closed says so with an error


def _write_all(descriptor: int, data: bytes) -> None:
    try:
        while data:
            data = data[os.write(descriptor, data) :]
    except OSError:
        return  # nobody reads our stderr any more; the child must not feel it


# -- the terminal ---------------------------------------------------------------------------------------------


def _in_foreground() -> bool:
    try:
        return os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False


def _give_terminal(group: int) -> None:
    """As a shell does it; a background process that sets the foreground is stopped unless it ignores SIGTTOU."""
    before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    try:
        os.tcsetpgrp(0, group)
    except OSError:
        return  # the terminal is gone, or the group is
    finally:
        signal.signal(signal.SIGTTOU, before)


# -- what /proc knows -----------------------------------------------------------------------------------------


def _all_pids() -> Iterator[int]:
    try:
        names = os.listdir("/proc")
    except OSError:
        return
    yield from (int(name) for name in names if name.isdigit())


def _named(session: str) -> bytes:
    """How a session's processes are told from others."""
    return f"{SESSION_VARIABLE}={session}".encode()


def _environment(pid: int) -> list[bytes]:
    """The variables a process was started with; empty where we may not know."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def _stat_of(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


def _start_of(pid: int) -> str:
    """Start time in ticks since boot; empty where there is no such process, or only its entry is left."""
    fields = _stat_of(pid)
    return fields[19] if fields and fields[0] not in ("Z", "X") else ""


def _ancestors(pid: int) -> Iterator[int]:
    while pid > 0:
        yield pid
        fields = _stat_of(pid)
        pid = int(fields[1]) if fields else 0
