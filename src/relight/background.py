"""A start in the background: a supervisor process of its own, and the proof that it began before anybody is told so.

The same for `--detach` and for the server. The supervisor is `relight resume` in a session of its own, so that it
outlives whoever asked for it; what it prints goes to a file beside the store. It begins when it owns the session: until
then nothing was changed, and where it does not begin, what it said is told.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from relight.errors import AgentFailed, PlanMoved, RelightError
from relight.machine import open_log
from relight.model.info import SessionInfo
from relight.model.policy import NO_ALLOWANCE, Allowance
from relight.ports.runtime import STORE_VARIABLE

if TYPE_CHECKING:
    from relight.engine.library import Relight

START_SECONDS: Final = 15.0
_LOOK_SECONDS: Final = 0.05
_END_SECONDS: Final = 2.0
_SAID_LINES: Final = 6
_SAID_BYTES: Final = 8192
_TOKEN: Final = "RELIGHT_TOKEN"


class Begun(NamedTuple):
    """A supervisor that owns the session, or waits with it for its time."""

    session: SessionInfo
    pid: int
    child: subprocess.Popen[bytes]
    """to be reaped by whoever outlives it"""


def start_in_background(
    rl: Relight,
    session: str,
    *,
    prompt: str | None = None,
    retries: int | None = None,
    restore: bool = False,
    without_secrets: bool = False,
    from_last_good: bool = False,
    now: bool = False,
    limits: Allowance = NO_ALLOWANCE,
    seconds: float = START_SECONDS,
) -> Begun:
    """Start a supervisor for a session and wait until it owns it. AgentFailed where it does not, with what it said.

    A library that has the session as it was shown (`Relight.as_shown`) hands this on: it begins so, or not at all."""
    before = rl.get(session)
    if not from_last_good:
        rl.load(before.id)  # damage is told by its own name, before anything is started
    checked, rl = rl, rl.plain
    flags = {"--restore": restore, "--without-secrets": without_secrets, "--from-last-good": from_last_good}
    command = [sys.executable, "-P", "-m", "relight.cli", "resume", "--yes", "--quiet"]
    command += [flag for flag, wanted in {**flags, "--now": now}.items() if wanted]
    command += ["--retries", str(retries)] if retries is not None else []
    command += limits.flags()
    command += ["--plan", checked.plan_hash(before.id)] if checked is not rl else []
    command += ["--", before.id, *([prompt] if prompt is not None else [])]
    environment = {**os.environ, STORE_VARIABLE: rl.store.url}  # not an argument: an address may hold a password
    environment.pop(_TOKEN, None)  # an agent does not get the key to the server that started it
    log = rl.run_directory(before.id) / "supervisor.log"
    try:
        with open(open_log(log), "ab") as kept:
            said_from = kept.tell()
            child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=kept, stderr=kept, start_new_session=True, env=environment
            )
    except OSError as error:
        hints = ["make room for another process and its file, then ask again"]
        raise AgentFailed(f"{before.title}: no process could be started for it: {error}", hints=hints) from None
    try:
        info = _wait(rl, before, child, seconds)
    except RelightError:
        _end(child)
        raise
    if info.attempt == before.attempt and not _waits(info, child):
        _end(child)
        evidence = _said(log, said_from)
        if PlanMoved.code in "".join(evidence):
            checked.get(before.id)  # says so itself
        hints = [f"see what stands against it: relight resume {info.title} --dry-run"]
        raise AgentFailed(f"{info.title}: it did not start in the background", evidence=evidence, hints=hints)
    return Begun(info, child.pid, child)


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


def _wait(rl: Relight, before: SessionInfo, child: subprocess.Popen[bytes], seconds: float) -> SessionInfo:
    """Until it began, ended, or its time is over."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        ended = child.poll() is not None  # looked at first: what it wrote before it ended is seen below
        info = rl.get(before.id)
        if info.attempt != before.attempt or ended:
            return info
        time.sleep(_LOOK_SECONDS)
    return rl.get(before.id)


def _waits(info: SessionInfo, child: subprocess.Popen[bytes]) -> bool:
    """In line until a usage limit ends: the supervisor sits there and wakes it."""
    return child.poll() is None and info.status == "queued" and info.wake_at is not None


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


def resume_in_background(
    rl: Relight,
    ref: str,
    *,
    prompt: str | None = None,
    retries: int | None = None,
    restore: bool = False,
    without_secrets: bool = False,
    from_last_good: bool = False,
    now: bool = False,
    limits: Allowance = NO_ALLOWANCE,
) -> Begun:
    """A resume: refused before anything is touched, or begun. Below the head a fork is made, and goes if it cannot."""
    if not from_last_good:  # a damaged session is mended by the supervisor, which then looks
        rl.check_start(ref, prompt=prompt, restore=restore, without_secrets=without_secrets, limits=limits)
    plan = rl.can_resume(ref, disk=False)
    fork = rl.fork(ref) if plan.forks else None
    session = fork.id if fork is not None else plan.session
    try:
        return start_in_background(
            rl,
            session,
            prompt=prompt,
            retries=retries,
            restore=restore,
            without_secrets=without_secrets,
            from_last_good=from_last_good and fork is None,
            now=now,
            limits=limits,
        )
    except RelightError:
        if fork is not None:
            rl.drop(fork.id)
        raise
