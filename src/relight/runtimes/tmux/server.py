"""Speaking with our own tmux server: one short command a question, exact targets, nothing of the user's in a format.

tmux expands `#{...}`, and runs `#(...)`, in names, directories and pipe commands. So names are checked, directories
are not given to it at all, and the one path that is (of the log) is quoted.
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
from relight.runtimes.tmux import keep
from relight.system import private_directories
from relight.system.processes import is_zombie, start_of

INSTALL: Final = "install it: apt-get install tmux (or: brew install tmux, dnf install tmux)"
SECONDS: Final = 10.0
"""within which tmux answers"""
LOG_BYTES: Final = 16 * 1024 * 1024
_EXIT_SECONDS: Final = 2.0
_LOOK_SECONDS: Final = 0.005
_ENDING: Final = ("server exited", "lost server", "no server running")
"""what tmux says where its server went away at that moment"""
_SOCKET_BYTES: Final = 100
_HANDLE: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,99}")
_MARK: Final = "@relight"
_FIELDS: Final = (_MARK, "pane_id", "pane_pid", "pane_dead", "pane_dead_status", "pane_dead_signal", "pid")
_FORMAT: Final = "|".join(f"#{{{field}}}" for field in _FIELDS)
_KEPT: Final = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TERM", "TMPDIR", "XDG_RUNTIME_DIR")
"""what the server itself knows of our variables; the agent's own come to it another way"""


class Pane(msgspec.Struct, frozen=True, kw_only=True):
    """The pane of ours behind a handle."""

    id: str
    pid: int
    server: int
    dead: bool
    exit: Exit | None


class Server:
    """A tmux server on a socket of our own; it starts with the first session and ends with the last."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.socket = directory / "tmux.sock"

    def check(self) -> None:
        """UsageError where tmux is missing or our directory is of no use."""
        if shutil.which("tmux") is None:
            raise UsageError("tmux is not installed", hints=[INSTALL, "or run it without: --runtime process"])
        if len(os.fsencode(self.socket)) > _SOCKET_BYTES:
            hints = ["choose a shorter directory for the store: set RELIGHT_STORE"]
            raise UsageError(f"the path is too long for a socket: {self.socket}", hints=hints)
        private_directories.make_trusted(self.directory)

    def ask(self, *words: str, stdin: bytes | None = None) -> str | None:
        """What tmux says; None where it refuses, or is not there."""
        told, _ = self.run(*words, stdin=stdin)
        return told

    def run(self, *words: str, stdin: bytes | None = None) -> tuple[str | None, str]:
        """What tmux says, and why it refuses."""
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
        """Ours behind a handle; None where there is no such session, or no pane of ours in it."""
        if not _HANDLE.fullmatch(handle):
            return None
        pane = self._look(handle)
        if pane is not None and pane.exit is None and is_zombie(pane.pid):
            _remind(pane)
            pane = self._look(handle)
        return pane

    def _look(self, handle: str) -> Pane | None:
        told = self.ask("list-panes", "-s", "-t", f"={handle}:", "-F", _FORMAT)
        return next((_pane_in(line) for line in (told or "").splitlines() if line.startswith("1|")), None)

    def start(self, handle: str, command: Sequence[str], *, log: Path | None) -> None:
        """A session with this one pane, which stays when its process ends."""
        keep = ("set-option", "-g", "remain-on-exit", "on", ";", "set-option", "-g", "history-limit", "50000", ";")
        where = ("-d", "-s", handle, "-x", "200", "-y", "50", "-c", "/")
        mark = (";", "set-option", "-p", "-t", f"={handle}:", _MARK, "1")
        pipe = _pipe(f"={handle}:", log)
        words = (*keep, "new-session", *where, "--", *command, *mark, *pipe)
        told, why = self.run(*words)
        if told is None and any(sign in why for sign in _ENDING):
            told, why = self.run(*words)
        if told is None:
            raise AgentFailed(f"tmux cannot start {handle}: {why}")

    def respawn(self, pane: Pane, command: Sequence[str], *, log: Path | None) -> None:
        """Another process in the same place; whoever looks at it sees the new one."""
        again = ("clear-history", "-t", pane.id, ";", "respawn-pane", "-k", "-t", pane.id, "-c", "/", "--", *command)
        told, why = self.run(*again, *_pipe(pane.id, log))
        if told is None:
            raise AgentFailed(f"tmux cannot start it again: {why}")

    def remove(self, handle: str, pane: Pane) -> None:
        """The session goes, and with the last one the server: waited for, so that the next start finds a whole one."""
        self.ask("kill-session", "-t", f"={handle}")
        deadline = time.monotonic() + _EXIT_SECONDS
        while start_of(pane.server) and self.ask("list-sessions") is None and time.monotonic() < deadline:
            time.sleep(_LOOK_SECONDS)

    def paste(self, pane: Pane, data: bytes, *, bracketed: bool) -> bool:
        """Bytes to the process of this pane: to this very one, or to nobody. True where they went."""
        buffer = f"relight-{secrets.token_hex(8)}"
        same = f"#{{&&:#{{==:#{{pane_pid}},{pane.pid}}},#{{!=:#{{pane_dead}},1}}}}"
        how = "-p" if bracketed else "-r"
        typed = f"paste-buffer {how} -d -b {buffer} -t {pane.id} ; display-message -p typed"
        give_up = f"delete-buffer -b {buffer}"
        told = self.ask(
            "load-buffer", "-b", buffer, "-", ";", "if-shell", "-F", "-t", pane.id, same, typed, give_up, stdin=data
        )
        if told is None:
            self.ask("delete-buffer", "-b", buffer)
        return told is not None and "typed" in told

    def screen(self, pane: Pane) -> list[str]:
        """What the pane shows and has shown, as text."""
        told = self.ask("capture-pane", "-p", "-J", "-S", "-200", "-t", pane.id) or ""
        return [line.rstrip() for line in told.splitlines() if line.strip() and not line.startswith("Pane is dead")]


def checked(handle: str) -> str:
    """A handle that is a name to tmux and nothing else."""
    if not _HANDLE.fullmatch(handle):
        raise UsageError(f"not a handle for tmux: {handle!a}", hints=["letters, digits, - and _, at most 100"])
    return handle


def _remind(pane: Pane) -> None:
    """tmux 3.3 can miss the end of a process that was typed to a moment ago; asked again, it sees it."""
    try:
        os.kill(pane.server, signal.SIGCHLD)
    except (ProcessLookupError, PermissionError):
        return


def _pane_in(line: str) -> Pane:
    _, id, pid, dead, status, killed_by, server = line.split("|")
    exit = Exit(signal=int(killed_by)) if killed_by else Exit(code=int(status)) if status else None
    return Pane(id=id, pid=int(pid), server=int(server), dead=dead == "1", exit=exit)


def _pipe(target: str, log: Path | None) -> tuple[str, ...]:
    """The end of a command that also sends the pane's output to a file: 0600, two parts at most."""
    if log is None:
        return ()
    words = [sys.executable, "-P", "-m", keep.__name__, str(log), str(LOG_BYTES)]
    return (";", "pipe-pane", "-t", target, f"exec {shlex.join(words)}".replace("#", "##").replace("%", "%%"))
