"""Commands to our own tmux server: one short call per question, with exact targets.

tmux expands `#{...}`, and executes `#(...)`, in names, directories and pipe commands. So names are validated,
directories are never passed to it, and the one path that is (the log's) is quoted.
"""

from __future__ import annotations

import os
import re
import secrets
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from relight.errors import AgentFailed, UsageError
from relight.ports.runtime import Exit
from relight.runtimes.tmux import log_pane
from relight.system import private_directories
from relight.system.processes import is_zombie, start_of

INSTALL: Final = "install it: apt-get install tmux (or: brew install tmux, dnf install tmux)"
SECONDS: Final = 10.0
"""timeout of one tmux command"""
LOG_BYTES: Final = 16 * 1024 * 1024
_EXIT_SECONDS: Final = 2.0
_POLL_SECONDS: Final = 0.005
_ENDING: Final = ("server exited", "lost server", "no server running")
"""tmux's errors if its server exited during the command"""
_HANDLE: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,99}")
_MARK: Final = "@relight"
_STARTED: Final = "@relight_started"
"""the pid and the session of the process that we started in a pane"""
_FIELDS: Final = (_MARK, _STARTED, "pane_id", "pane_pid", "pane_dead", "pane_dead_status", "pane_dead_signal", "pid")
_FORMAT: Final = "|".join(f"#{{{field}}}" for field in _FIELDS)
_KEPT: Final = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TERM", "TMPDIR", "XDG_RUNTIME_DIR")
"""variables that the tmux server itself inherits; the agent's environment comes from the launch file"""


class Pane(msgspec.Struct, frozen=True, kw_only=True):
    """The pane behind a handle, as tmux reported it."""

    id: str
    pid: int
    session: str
    """the session of relight's process in it; empty if another program started it, or relight 0.1.0"""
    server: int
    dead: bool
    exit: Exit | None


class Server:
    """Our own tmux server and its socket; it starts with the first session and exits with the last."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.socket = private_directories.short_socket(directory / "tmux.sock")

    def check(self) -> None:
        """UsageError if tmux is not installed; StoreUnavailable if the socket's directory cannot be trusted."""
        if shutil.which("tmux") is None:
            raise UsageError("tmux is not installed", hints=[INSTALL, "or run it without: --runtime process"])
        private_directories.make_trusted(self.directory)
        if self.socket.parent != self.directory:
            private_directories.make_in_shared(self.socket.parent)

    def ask(self, *words: str, stdin: bytes | None = None) -> str | None:
        """tmux's output; None if the command failed or no server runs."""
        output, _ = self.run(*words, stdin=stdin)
        return output

    def run(self, *words: str, stdin: bytes | None = None) -> tuple[str | None, str]:
        """tmux's output, or None and the error."""
        if self.socket.parent != self.directory:
            try:
                private_directories.check_in_shared(self.socket.parent)
            except FileNotFoundError:
                return None, f"no server running on {self.socket}"
        known = {name: value for name, value in os.environ.items() if name in _KEPT or name.startswith("LC_")}
        command = ["tmux", "-u", "-S", str(self.socket), "-f", "/dev/null", *words]
        try:
            done = subprocess.run(
                command, input=stdin or b"", env=known, cwd="/", capture_output=True, timeout=SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return None, str(error)
        if done.returncode:
            return None, done.stderr.decode("utf-8", "replace").strip()
        return done.stdout.decode("utf-8", "replace"), ""

    def pane(self, handle: str) -> Pane | None:
        """The pane of a handle that we marked; None if there is no such session or pane."""
        if not _HANDLE.fullmatch(handle):
            return None
        pane = self._find_pane(handle)
        if pane is not None and pane.exit is None and is_zombie(pane.pid):
            _remind(pane)
            pane = self._find_pane(handle)
        return pane

    def _find_pane(self, handle: str) -> Pane | None:
        output = self.ask("list-panes", "-s", "-t", f"={handle}:", "-F", _FORMAT)
        return next((_pane_in(line) for line in (output or "").splitlines() if line.startswith("1|")), None)

    def start(self, handle: str, command: Sequence[str], *, session: str, log: Path | None) -> None:
        """Start a session with one marked pane, which stays when its process ends."""
        keep = ("set-option", "-g", "remain-on-exit", "on", ";", "set-option", "-g", "history-limit", "50000", ";")
        where = ("-d", "-s", handle, "-x", "200", "-y", "50", "-c", "/")
        mark = (";", "set-option", "-p", "-t", f"={handle}:", _MARK, "1", *_started(f"={handle}:", session))
        pipe = _pipe(f"={handle}:", log)
        words = (*keep, "new-session", *where, "--", *command, *mark, *pipe)
        output, why = self.run(*words)
        # The server exits with its last session; a start that meets it at that moment succeeds with a new server.
        if output is None and any(sign in why for sign in _ENDING):
            output, why = self.run(*words)
        if output is None:
            raise AgentFailed(f"tmux cannot start {handle}: {why}")

    def respawn(self, pane: Pane, command: Sequence[str], *, session: str, log: Path | None) -> None:
        """Start another process in the same pane; an attached client sees the new one."""
        again = ("clear-history", "-t", pane.id, ";", "respawn-pane", "-k", "-t", pane.id, "-c", "/", "--", *command)
        output, why = self.run(*again, *_started(pane.id, session), *_pipe(pane.id, log))
        if output is None:
            raise AgentFailed(f"tmux cannot restart it: {why}")

    def remove(self, handle: str, pane: Pane) -> None:
        """Kill the session; if it was the last, wait until the server has exited too."""
        self.ask("kill-session", "-t", f"={handle}")
        deadline = time.monotonic() + _EXIT_SECONDS
        while start_of(pane.server) and self.ask("list-sessions") is None and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)

    def paste(self, pane: Pane, data: bytes, *, bracketed: bool) -> bool:
        """Type bytes into this pane if its process is still the given one; whether they were typed."""
        buffer = f"relight-{secrets.token_hex(8)}"
        # Compared inside tmux, in the same command as the paste: no other process can get the text in between.
        same = f"#{{&&:#{{==:#{{pane_pid}},{pane.pid}}},#{{!=:#{{pane_dead}},1}}}}"
        how = "-p" if bracketed else "-r"
        typed = f"paste-buffer {how} -d -b {buffer} -t {pane.id} ; display-message -p typed"
        give_up = f"delete-buffer -b {buffer}"
        output = self.ask(
            "load-buffer", "-b", buffer, "-", ";", "if-shell", "-F", "-t", pane.id, same, typed, give_up, stdin=data
        )
        if output is None:
            self.ask("delete-buffer", "-b", buffer)
        return output is not None and "typed" in output

    def screen(self, pane: Pane) -> list[str]:
        """The pane's screen and its last 200 lines of history, as text."""
        output = self.ask("capture-pane", "-p", "-J", "-S", "-200", "-t", pane.id) or ""
        return [line.rstrip() for line in output.splitlines() if line.strip() and not line.startswith("Pane is dead")]


def checked(handle: str) -> str:
    """The handle, if tmux can only read it as a name; else UsageError."""
    if not _HANDLE.fullmatch(handle):
        raise UsageError(f"not a handle for tmux: {handle!r}", hints=["letters, digits, - and _, at most 100"])
    return handle


def _remind(pane: Pane) -> None:
    # tmux 3.3 can miss the SIGCHLD of a process that was typed to a moment ago; sent again, it reaps the process.
    try:
        os.kill(pane.server, signal.SIGCHLD)
    except (ProcessLookupError, PermissionError):
        return


def _pane_in(line: str) -> Pane:
    _, started, id, pid, dead, status, killed_by, server = line.split("|")
    ours, _, session = started.partition(":")
    exit = Exit(signal=int(killed_by)) if killed_by else Exit(code=int(status)) if status else None
    session = session if ours == pid else ""
    return Pane(id=id, pid=int(pid), session=session, server=int(server), dead=dead == "1", exit=exit)


def _started(target: str, session: str) -> tuple[str, ...]:
    """The part of a tmux command that records whom we started in a pane. A person who starts another program there
    changes the pane's pid, and not this."""
    name = session if _HANDLE.fullmatch(session) else ""  # tmux expands formats in it
    return (";", "set-option", "-p", "-F", "-t", target, _STARTED, f"#{{pane_pid}}:{name}")


def _pipe(target: str, log: Path | None) -> tuple[str, ...]:
    """The part of a tmux command that pipes the pane's output to the log writer."""
    if log is None:
        return ()
    words = [sys.executable, "-P", "-m", log_pane.__name__, str(log), str(LOG_BYTES)]
    return (";", "pipe-pane", "-t", target, f"exec {shlex.join(words)}".replace("#", "##").replace("%", "%%"))
