"""The tmux runtime: one tmux session per handle, on our own server, which outlives the processes in it."""

from __future__ import annotations

import os
import secrets
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from relight.errors import AgentFailed, Refused, StoreUnavailable, UsageError
from relight.ports.runtime import SESSION_VARIABLE, Probe
from relight.runtimes.tmux import launch, log_pane
from relight.runtimes.tmux.child import Tail, TmuxChild
from relight.runtimes.tmux.foreground import in_the_way
from relight.runtimes.tmux.server import Pane, Server, checked
from relight.system.environment_secrets import secrets_of
from relight.system.processes import LocalProcesses, environment_of, members_of, start_of, value_in, words_of

TEXT_BYTES: Final = 1024 * 1024
_START_SECONDS: Final = 10.0
_POLL_SECONDS: Final = 0.002
_END_SECONDS: Final = 2.0
_BEFORE_ENTER_SECONDS: Final = 0.1
"""an agent that reads text and Enter in one read treats both as a paste"""


class TmuxRuntime(LocalProcesses):
    """Runs agents in panes of a tmux server whose socket is in `directory` (made with mode 0700)."""

    name = "tmux"
    persistent = True

    def __init__(self, directory: Path) -> None:
        self._server = Server(directory)

    def check(self, command: Sequence[str], directory: str) -> None:
        self._server.check()
        super().check(command, directory)

    def spawn(
        self,
        command: Sequence[str],
        *,
        directory: str,
        environment: Mapping[str, str],
        handle: str = "",
        log: Path | None = None,
        capture: bool = False,
    ) -> TmuxChild:
        """As the port says. Refused if a process is still alive behind the handle: destroy or reattach it first."""
        self._server.check()
        session = environment.get(SESSION_VARIABLE, "")
        handle = checked(handle or f"relight-{session[:8] or secrets.token_hex(4)}")
        log = log or (self._server.directory / f"{handle}.out" if capture else None)
        tail = Tail(log) if log is not None and capture else None
        before = self._server.pane(handle)
        if before is not None and _lives(before):
            raise Refused(
                f"{handle}: pid {before.pid} still runs there", hints=[f"join it: {self._attach_text(handle)}"]
            )
        wanted = self._write(command, directory, {**os.environ, **environment})
        words = [sys.executable, "-I", "-S", launch.__file__, str(wanted)]
        try:
            if log is not None:
                os.close(os.open(log, os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
                variables = {**os.environ, **environment}
                declared = {name: variables[name] for name in ("RELIGHT_SECRETS",) if name in variables}
                log_pane.hand_secrets(str(log), {**secrets_of(variables), **declared})
            if before is None:
                self._server.start(handle, words, session=session, log=log)
            else:
                self._server.respawn(before, words, session=session, log=log)
            pane = self._begun(handle, wanted)
        except OSError as error:
            raise AgentFailed(f"cannot write the log {log}: {error.strerror}") from None
        finally:
            wanted.unlink(missing_ok=True)
        return TmuxChild(self._server, handle, pane, session=session, tail=tail)

    def _write(self, command: Sequence[str], directory: str, environment: Mapping[str, str]) -> Path:
        words = [os.fsencode(word) for word in command]
        variables = {os.fsencode(name): os.fsencode(value) for name, value in environment.items()}
        data = launch.pack(words, os.fsencode(os.path.abspath(directory)), variables)
        if data.count(b"\0") != 1 + len(words) + sum(name not in launch.OF_THE_TERMINAL for name in variables):
            raise AgentFailed(f"cannot start {command[0]!r}: a word or variable holds a NUL")
        path = self._server.directory / f"launch-{secrets.token_hex(8)}"
        with open(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(data)
        return path

    def _begun(self, handle: str, wanted: Path) -> Pane:
        """The pane, once `launch` has become the agent. AgentFailed if the agent could not be started."""
        pane = self._server.pane(handle)
        failed = Path(f"{wanted}.failed")
        deadline = time.monotonic() + _START_SECONDS
        while pane is not None and start_of(pane.pid) and (wanted.exists() or str(wanted) in words_of(pane.pid)):
            if time.monotonic() > deadline:
                raise AgentFailed(f"{handle}: it did not start within {_START_SECONDS:.0f} s in tmux")
            time.sleep(_POLL_SECONDS)
        if failed.exists():
            why = failed.read_text(encoding="utf-8", errors="replace")
            failed.unlink()
            raise AgentFailed(f"cannot start it in tmux: {why}")
        if pane is None or wanted.exists():
            raise AgentFailed(f"{handle}: its tmux session ended at once")
        return pane

    def probe(self, handle: str) -> Probe:
        try:
            self._server.check()
        except (UsageError, StoreUnavailable) as error:
            return Probe(liveness="unknown", text=error.message)
        pane = self._server.pane(handle)
        if pane is None:
            return Probe(liveness="absent", text=f"no tmux session {handle}")
        if _lives(pane):
            return Probe(liveness="alive", pid=pane.pid, text=f"pid {pane.pid} in tmux {handle}")
        how = f" ({pane.exit})" if pane.exit is not None else ""
        return Probe(liveness="dead", pid=pane.pid, exit=pane.exit, text=f"tmux {handle}: it has ended{how}")

    def deliver(self, handle: str, text: str) -> None:
        text = _typable(text)
        pane = self._server.pane(handle)
        if pane is None:
            raise Refused(f"no tmux session {handle}; nothing was sent", hints=[_RESUME])
        self._refuse_others(handle, pane, "nothing was sent")
        if not self._server.paste(pane, text.encode(), bracketed=True):
            raise Refused(f"{handle}: the agent ended at this moment; nothing was sent", hints=[_RESUME])
        time.sleep(_BEFORE_ENTER_SECONDS)
        # Checked again before Enter: if the agent ended in between, a shell must not execute the text.
        self._refuse_others(handle, pane, "the text was typed but not entered")
        if not self._server.paste(pane, b"\r", bracketed=False):
            raise Refused(f"{handle}: the agent ended before Enter was sent; nothing was entered", hints=[_RESUME])

    def _refuse_others(self, handle: str, pane: Pane, done: str) -> None:
        if reason := in_the_way(pane.pid, _session_of(pane)):
            hints = [_RESUME if not start_of(pane.pid) else f"look at it: {self._attach_text(handle)}"]
            raise Refused(f"{handle}: {reason}; {done}", hints=hints)

    def destroy(self, handle: str) -> None:
        pane = self._server.pane(handle)
        if pane is None:
            return
        if _lives(pane):
            self.end([pane.pid, *members_of(pane.pid)], seconds=_END_SECONDS)
        self._server.remove(handle, pane)
        (self._server.directory / f"{handle}.out").unlink(missing_ok=True)

    def attach(self, handle: str) -> list[str] | None:
        if self._server.pane(handle) is None:
            return None
        outside = ["env", "-u", "TMUX"] if os.environ.get("TMUX") else []  # tmux refuses to nest if it sees TMUX
        return [*outside, *self.attach_command(handle)]

    def attach_command(self, handle: str) -> list[str]:
        return ["tmux", "-S", str(self._server.socket), "attach-session", "-t", f"={handle}"]

    def screen(self, handle: str) -> list[str] | None:
        pane = self._server.pane(handle)
        return self._server.screen(pane) if pane is not None else None

    def reattach(self, handle: str) -> TmuxChild | None:
        pane = self._server.pane(handle)
        if pane is None or not _lives(pane):
            return None
        session = _session_of(pane)
        return TmuxChild(self._server, handle, pane, session=session, tail=None) if session else None

    def _attach_text(self, handle: str) -> str:
        return shlex.join(self.attach_command(handle))


_RESUME: Final = "resume it with your text: relight resume NAME TEXT"


def _lives(pane: Pane) -> bool:
    return not pane.dead and pane.exit is None and bool(start_of(pane.pid))


def _session_of(pane: Pane) -> str:
    """The session that the pane's process works for; empty if it is not ours."""
    # tmux knows it. The environment does too, but macOS hides that of some programs; it is needed for what 0.1.0
    # started.
    return pane.session or value_in(environment_of(pane.pid), SESSION_VARIABLE)


def _typable(text: str) -> str:
    """The text with normalised newlines; UsageError for control characters, which are keys and could end the agent."""
    text = text.replace("\r\n", "\n").rstrip("\n")
    if len(text.encode("utf-8", "replace")) > TEXT_BYTES:
        raise UsageError("the text is too long to be typed", hints=["put it into a file and send the file's name"])
    if any(
        (ord(one) < 32 and one not in "\n\t") or 127 <= ord(one) < 160 or 0xD800 <= ord(one) < 0xE000 for one in text
    ):
        raise UsageError("the text contains control characters; nothing was sent")
    if not text.strip():
        raise UsageError("no text to send")
    return text
