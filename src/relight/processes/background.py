"""A start in the background: a supervisor process of its own, and the proof that it began before anybody is told so.

The same for `--detach` and for the server. The supervisor is `relight resume` in a session of its own, so that it
outlives whoever asked for it; what it prints goes to a file beside the store. What it is to start stands in a request
on its standard input; it answers on a pipe once its program runs, or its session stands in line. Until then nothing was
changed, and where it does not begin, what it said is told.
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
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from relight.errors import AgentFailed, Corrupt
from relight.ports.runtime import COMMAND_VARIABLE, LOG_VARIABLE, STORE_VARIABLE
from relight.system.machine import open_log
from relight.values.info import SessionInfo
from relight.values.outcome import Outcome
from relight.values.pending import Pending, Wanted

if TYPE_CHECKING:
    from relight.library.facade import Relight

START_SECONDS: Final = 15.0
FILES_SECONDS: Final = 900.0
"""where a directory has to be filled first"""
_END_SECONDS: Final = 2.0
_SAID_LINES: Final = 6
_SAID_BYTES: Final = 8192
_ANSWER_BYTES: Final = 65_536
_TOKEN: Final = "RELIGHT_TOKEN"


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What a supervisor in the background is to start."""

    session: str
    pending: Pending | None = None
    """where it does not exist yet"""
    wanted: Wanted = Wanted()
    retries: int | None = None
    now: bool = False
    shown: str | None = None
    """the hash of the plan that it was shown under"""


class Begun(NamedTuple):
    """A supervisor whose program runs, or that waits with its session for its time."""

    session: SessionInfo
    pid: int
    child: subprocess.Popen[bytes]
    """to be reaped by whoever outlives it"""
    outcome: Outcome


def encode_request(request: Request) -> bytes:
    """As the supervisor reads it."""
    return msgspec.msgpack.encode(request)


def decode_request(data: bytes) -> Request:
    """As it was asked for by a process of this machine and version."""
    return msgspec.msgpack.decode(data, type=Request)


def start_in_background(
    rl: Relight,
    ref: str | Pending,
    wanted: Wanted | None = None,
    *,
    retries: int | None = None,
    now: bool = False,
    seconds: float | None = None,
) -> Begun:
    """Start a supervisor for a session and wait until its program runs. What stands against it is raised before
    anything is started; AgentFailed where it does not begin, with what it said.

    A library that has the session as it was shown (`Relight.as_shown`) hands this on: it begins so, or not at all."""
    wanted = wanted or Wanted()
    request = _requested(rl, ref, wanted, retries=retries, now=now)
    fills = wanted.restore or (request.pending is not None and bool(request.pending.files))
    checked, rl = rl, rl.plain
    log = rl.run_directory_of(request.session) / "supervisor.log"
    child, answers, said_from = _started(rl, request, log)
    try:
        answer = _answer(child, answers, seconds or (FILES_SECONDS if fills else START_SECONDS))
    finally:
        os.close(answers)
    if answer is None:
        _end(child)
        if request.pending is not None:
            rl.clear_away(request.pending)
        _say_why(checked, request, _said(log, said_from))
    assert answer is not None
    return Begun(rl.get(answer.session), child.pid, child, answer)


def _requested(rl: Relight, ref: str | Pending, wanted: Wanted, *, retries: int | None, now: bool) -> Request:
    """Refused before anything is touched, or what the supervisor is told."""
    if isinstance(ref, Pending):
        return Request(session=ref.identity.id, pending=ref, wanted=wanted, retries=retries, now=now)
    before = rl.get(ref)
    shown = rl.plan_hash(before.id) if rl is not rl.plain and (before.wake_at is None or now) else None
    if wanted.from_last_good:  # the supervisor mends it, and looks then
        with contextlib.suppress(Corrupt):  # the damage is what it was asked for
            rl.check_start(
                ref,
                prompt=wanted.prompt,
                restore=wanted.restore,
                without_secrets=wanted.without_secrets,
                limits=wanted.limits,
            )
        return Request(session=ref, wanted=wanted, retries=retries, now=now, shown=shown)
    try:
        planned = rl.plan_start(ref, wanted)
    except Corrupt:
        rl.load(before.id)  # says what is whole before it
        raise
    rl.load(before.id)  # damage is told by its own name
    if planned is None:
        return Request(session=before.id, wanted=wanted, retries=retries, now=now, shown=shown)
    return Request(session=planned.identity.id, pending=planned, wanted=wanted, retries=retries, now=now)


def _started(rl: Relight, request: Request, log: Path) -> tuple[subprocess.Popen[bytes], int, int]:
    """The supervisor, the pipe it answers on, and from where on the log is its own."""
    environment = {**os.environ, STORE_VARIABLE: rl.store.url}  # not an argument: an address may hold a password
    given = rl.take_command(request.session)
    if given is not None:  # nor an argument: its record holds no secrets, and these are for nobody else to see
        environment[COMMAND_VARIABLE] = json.dumps([request.session, *given])
    environment[LOG_VARIABLE] = "1"
    environment.pop(_TOKEN, None)  # an agent does not get the key to the server that started it
    near, far = os.pipe()
    command = [sys.executable, "-P", "-m", "relight.cli", "resume", "--quiet", "--request", str(far)]
    try:
        with open(open_log(log), "ab") as kept, tempfile.TemporaryFile() as asked:
            said_from = kept.tell()
            asked.write(encode_request(request))
            asked.seek(0)
            child = subprocess.Popen(
                command,
                stdin=asked,
                stdout=kept,
                stderr=kept,
                start_new_session=True,
                env=environment,
                pass_fds=(far,),
            )
    except OSError as error:
        os.close(near)
        hints = ["make room for another process and its file, then ask again"]
        raise AgentFailed(f"{request.session[:8]}: no process could be started for it: {error}", hints=hints) from None
    finally:
        os.close(far)
    return child, near, said_from


def sweep_in_background(store: str, *, by: str) -> None:
    """The sweep of the day, in a process that outlives this one. A machine with no room for it sweeps another time."""
    command = [sys.executable, "-P", "-m", "relight.cli", "sweep", "--due", "--by", by]
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


def _answer(child: subprocess.Popen[bytes], answers: int, seconds: float) -> Outcome | None:
    """What came of it; None where it ended without an answer, or its time is over."""
    deadline, data = time.monotonic() + seconds, b""
    while (left := deadline - time.monotonic()) > 0:
        ready, _, _ = select.select([answers], [], [], left)
        if not ready:
            return None
        more = os.read(answers, _ANSWER_BYTES)
        if not more:
            return msgspec.msgpack.decode(data, type=Outcome) if data else None
        data += more
    return None


def _say_why(checked: Relight, request: Request, evidence: list[str]) -> None:
    """By its own name, where looking again tells it; else what the supervisor said."""
    if request.pending is None:
        checked.get(request.session)  # moved since it was shown?
        checked.plain.check_start(request.session, prompt=request.wanted.prompt, restore=request.wanted.restore)
        title = checked.plain.get(request.session).title
    else:
        title = request.pending.identity.name or (request.pending.asked or request.session)[:8]
    hints = ["nothing was changed; above is what its supervisor said: mend that, then ask again"]
    raise AgentFailed(f"{title}: it did not start in the background", evidence=evidence, hints=hints)


def _end(child: subprocess.Popen[bytes]) -> None:
    """A supervisor that does not begin is not left behind to begin later."""
    if child.poll() is None:
        child.terminate()
        try:
            child.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def _said(log: Path, since: int) -> list[str]:
    """Its last lines, as evidence."""
    try:
        with open(log, "rb") as kept:
            kept.seek(max(since, kept.seek(0, os.SEEK_END) - _SAID_BYTES))
            text = kept.read().decode("utf-8", "replace")
    except OSError:
        return []
    return list(deque((line for line in text.splitlines() if line.strip()), maxlen=_SAID_LINES))


def answered(descriptor: int, outcome: Outcome) -> None:
    """In the supervisor: say what came of it, once. Whoever asked may be gone by now, and it goes on all the same."""
    try:
        with open(descriptor, "wb") as pipe:
            pipe.write(msgspec.msgpack.encode(outcome))
    except OSError:
        return
