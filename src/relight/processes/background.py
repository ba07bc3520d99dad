"""Background starts, for `--detach` and for the server: a detached supervisor, confirmed before the caller returns.

The supervisor (processes/supervisor.py) is in a process session of its own, so that it outlives the caller; its output
goes to a log beside the store. It reads what to start from its standard input, and reports on a pipe, once: that its
program runs or its session is queued, or the error that refused the start, which is raised here as if it had happened
here. If it dies or times out before that, nothing was changed, and the end of its log is shown as evidence.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from relight.errors import AgentFailed, Corrupt, RelightError
from relight.ports.runtime import COMMAND_VARIABLE, STORE_VARIABLE
from relight.system.machine import open_log
from relight.values.info import SessionInfo
from relight.values.options import AS_IT_IS, ResumeOptions
from relight.values.outcome import StartOutcome
from relight.values.session import Pending

if TYPE_CHECKING:
    from relight.library.facade import Relight

START_SECONDS: Final = 15.0
FILES_SECONDS: Final = 900.0
"""instead of START_SECONDS if a directory has to be restored first"""
_END_SECONDS: Final = 2.0
_EVIDENCE_LINES: Final = 6
_EVIDENCE_BYTES: Final = 8192
_ANSWER_BYTES: Final = 65_536
_TOKEN: Final = "RELIGHT_TOKEN"


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What a background supervisor is to start."""

    session: str
    pending: Pending | None = None
    """the session to create, if it does not exist yet"""
    options: ResumeOptions = AS_IT_IS
    shown: str | None = None
    """the plan hash it is pinned to"""


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """An error of the supervisor: the name of its class, and its attributes."""

    kind: str
    fields: dict[str, Any]


class StartReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a supervisor writes to its pipe, once; both None: it died without a word."""

    started: StartOutcome | None = None
    refused: Refusal | None = None


class BackgroundStart(NamedTuple):
    """A supervisor whose program runs, or whose session is queued."""

    session: SessionInfo
    pid: int
    child: subprocess.Popen[bytes]
    """a long-lived caller must reap it"""
    outcome: StartOutcome


def decode_request(data: bytes) -> Request:
    """What the calling process, of the same machine and version, wrote to the supervisor's standard input."""
    return msgspec.msgpack.decode(data, type=Request)


def start_in_background(rl: Relight, ref: str | Pending, options: ResumeOptions = AS_IT_IS) -> BackgroundStart:
    """Start a supervisor for a session and wait until its program runs.

    Errors that can be known in advance are raised before anything is started; AgentFailed, with the supervisor's last
    output, if it does not begin. A library pinned to a plan (`Relight.pinned`) passes its hash on: the session is
    started as planned, or not at all."""
    request = _request_for(rl, ref, options)
    fills = options.restore or (request.pending is not None and bool(request.pending.files))
    rl = rl.unpinned
    log = rl.runs.directory(request.session) / "supervisor.log"
    child, pipe, log_start = _spawn_supervisor(rl, request, log)
    try:
        report = _wait_for_report(pipe, FILES_SECONDS if fills else START_SECONDS)
    finally:
        os.close(pipe)
    if report.started is not None:
        return BackgroundStart(rl.sessions.get(report.started.session), child.pid, child, report.started)
    _end(child)
    if request.pending is not None:
        rl.runs.clear_away(request.pending)
    if report.refused is not None:
        raise _as_raised(report.refused)
    raise _died(rl, request, _log_tail(log, log_start))


def _request_for(rl: Relight, ref: str | Pending, options: ResumeOptions) -> Request:
    """The supervisor's request, after every check that can refuse the start; changes nothing."""
    if isinstance(ref, Pending):
        return Request(session=ref.identity.id, pending=ref, options=options)
    before = rl.sessions.get(ref)
    shown = rl.runs.plan_hash(before.id) if rl is not rl.unpinned and (before.wake_at is None or options.now) else None
    if options.from_last_good:
        # The supervisor repairs the session and checks it again then, so the damage itself is no reason to refuse.
        with contextlib.suppress(Corrupt):
            rl.runs.check_start(ref, options)
        return Request(session=ref, options=options, shown=shown)
    try:
        planned = rl.runs.plan_start(ref, options)
    except Corrupt:
        rl.history.load(before.id)  # raises a better error, which names the last good checkpoint
        raise
    rl.history.load(before.id)  # the plan reads only the head: damage further back must be refused here, by name
    if planned is None:
        return Request(session=before.id, options=options, shown=shown)
    return Request(session=planned.identity.id, pending=planned, options=options)


def _spawn_supervisor(rl: Relight, request: Request, log: Path) -> tuple[subprocess.Popen[bytes], int, int]:
    """The supervisor, the pipe it reports on, and the offset at which its part of the log begins."""
    # The address and the command line go into the environment, not into argv, which every user can read: an address
    # may hold a password, and the command as typed may hold secrets that its stored record does not.
    environment = {**os.environ, STORE_VARIABLE: rl.store.url}
    given = rl.runs.take_command(request.session)
    if given is not None:
        environment[COMMAND_VARIABLE] = json.dumps([request.session, *given])
    environment.pop(_TOKEN, None)  # the agent must not inherit the token of the server that started it
    reader, writer = os.pipe()
    command = [sys.executable, "-P", "-m", "relight.processes.supervisor", str(writer)]
    try:
        with open(open_log(log), "ab") as output, tempfile.TemporaryFile() as stdin:
            log_start = output.tell()
            stdin.write(msgspec.msgpack.encode(request))
            stdin.seek(0)
            child = subprocess.Popen(
                command,
                stdin=stdin,
                stdout=output,
                stderr=output,
                start_new_session=True,
                env=environment,
                pass_fds=(writer,),
            )
    except OSError as error:
        os.close(reader)
        hints = ["free some memory, processes or disk space, then try again"]
        raise AgentFailed(f"{request.session[:8]}: cannot start its supervisor: {error}", hints=hints) from None
    finally:
        os.close(writer)
    return child, reader, log_start


def sweep_in_background(store: str, *, by: str) -> None:
    """Run the daily sweep in a process that outlives this one. It is optional: if it cannot be started, another day's
    sweep does its work."""
    command = [sys.executable, "-P", "-m", "relight.processes.sweep", by]
    environment = {**os.environ, STORE_VARIABLE: store}
    environment.pop(_TOKEN, None)
    quiet = subprocess.DEVNULL
    try:
        child = subprocess.Popen(
            command, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True, env=environment
        )
    except OSError:
        return
    threading.Thread(target=child.wait, name="relight-sweep-reaper", daemon=True).start()


def _wait_for_report(pipe: int, seconds: float) -> StartReport:
    """What the supervisor reports; an empty report if it ended before it had written all of one, or timed out."""
    deadline, data = time.monotonic() + seconds, b""
    while (left := deadline - time.monotonic()) > 0:
        ready, _, _ = select.select([pipe], [], [], left)
        if not ready:
            break
        more = os.read(pipe, _ANSWER_BYTES)
        if not more:
            with contextlib.suppress(msgspec.DecodeError):  # it was killed while it wrote
                return msgspec.json.decode(data, type=StartReport)
            break
        data += more
    return StartReport()


def _died(rl: Relight, request: Request, evidence: list[str]) -> AgentFailed:
    """The error for a supervisor that did not report, with the end of its output."""
    if request.pending is None:
        title = rl.sessions.get(request.session).title
    else:
        title = request.pending.identity.name or (request.pending.asked or request.session)[:8]
    hints = ["nothing was changed; fix what its supervisor printed (above), then try again"]
    return AgentFailed(f"{title}: it did not start in the background", evidence=evidence, hints=hints)


def _end(child: subprocess.Popen[bytes]) -> None:
    """End a supervisor that did not begin: left running, it could begin after the caller got an error."""
    if child.poll() is None:
        child.terminate()
        try:
            child.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def _log_tail(log: Path, since: int) -> list[str]:
    """The last lines of a log from an offset on."""
    try:
        with open(log, "rb") as file:
            file.seek(max(since, file.seek(0, os.SEEK_END) - _EVIDENCE_BYTES))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return []
    return list(deque((line for line in text.splitlines() if line.strip()), maxlen=_EVIDENCE_LINES))


class StatusPipe:
    """The supervisor's end of the pipe: takes the first report, and ignores all others."""

    def __init__(self, descriptor: int) -> None:
        # The program must not inherit it: the pipe would stay open as long as it runs.
        os.set_inheritable(descriptor, False)
        self._descriptor: int | None = descriptor

    def started(self, outcome: StartOutcome) -> None:
        """Its program runs, or its session is queued."""
        self._write(StartReport(started=outcome))

    def refused(self, error: RelightError) -> None:
        """The start was refused by this error."""
        self._write(StartReport(refused=Refusal(kind=type(error).__name__, fields=vars(error))))

    def _write(self, report: StartReport) -> None:
        # Forgotten once used: the number may belong to another file by the time of a second report.
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            with contextlib.suppress(OSError), open(descriptor, "wb") as pipe:  # the calling process may be gone
                pipe.write(msgspec.json.encode(report, enc_hook=str))


def _as_raised(refusal: Refusal) -> RelightError:
    """The supervisor's error as an exception of this process."""
    kinds, left = {"RelightError": RelightError}, [RelightError]
    while left:
        found = left.pop().__subclasses__()
        kinds |= {kind.__name__: kind for kind in found}
        left += found
    kind = kinds.get(refusal.kind, RelightError)
    error = kind.__new__(kind)
    RelightError.__init__(error, **{name: refusal.fields[name] for name in ("message", "evidence", "hints")})
    vars(error).update({name: value for name, value in refusal.fields.items() if name not in vars(error)})
    return error
