"""One life of an agent: a forked process that runs it once, and may be killed at a fault point.

Forked, not spawned: the agent may be any function of the test, with what the test has replaced. The child has its own
process group, which is ended with it, so that no process of a killed run is left in the next one.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Literal, NoReturn

import msgspec

from relight.ports import faults
from relight.ports.runtime import PARENT_VARIABLE, SESSION_VARIABLE

_POLL_SECONDS: Final = 0.001
_SHOWN: Final = 2000


class Life(msgspec.Struct, kw_only=True):
    """How one life ended."""

    end: Literal["returned", "raised", "killed", "timed out"]
    value: Any = None
    """what the agent returned, if it is JSON"""
    error: str = ""
    """type of the exception that it raised"""
    text: str = ""
    """the exception's traceback, and what the process printed last"""
    passes: dict[str, int] = {}
    """how often each fault point was passed"""


def live(agent: Callable[[], Any], url: str, directory: Path, *, fault: str = "", seconds: float) -> Life:
    """Run the agent in a child process, with `url` as its default store and a fault `NAME:NTH:kill` armed."""
    report, printed = directory / "life.json", directory / "life.txt"
    report.unlink(missing_ok=True)
    with warnings.catch_warnings():
        # A child of a process with threads may find a lock that is never released. Relight's own are reset, and a child
        # that hangs is ended and reported.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        _be_the_child(agent, url, report, printed, fault)
    ended = _wait(pid, seconds)
    output = printed.read_text(encoding="utf-8", errors="replace")[-_SHOWN:] if printed.exists() else ""
    if not ended:
        return Life(end="timed out", text=output)
    if not report.exists():
        return Life(end="killed", text=output)
    life = msgspec.json.decode(report.read_bytes(), type=Life)
    life.text += output
    return life


def _wait(pid: int, seconds: float) -> bool:
    """Whether it ended by itself in so many seconds; whatever it started is ended with it."""
    deadline = time.monotonic() + seconds
    try:
        while not (ended := os.waitpid(pid, os.WNOHANG)[0] == pid) and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
    finally:
        try:
            os.killpg(pid, signal.SIGKILL)
        except ProcessLookupError:
            os.kill(pid, signal.SIGKILL) if not ended else None
    if not ended:
        os.waitpid(pid, 0)
    return ended


def _be_the_child(agent: Callable[[], Any], url: str, report: Path, printed: Path, fault: str) -> NoReturn:
    """Run the agent, tell how it ended, and exit without the parent's exit handlers."""
    passes: Counter[str] = Counter()
    life = Life(end="raised")
    try:
        os.setpgid(0, 0)
        output = os.open(printed, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(output, 1)
        os.dup2(output, 2)
        sys.stdout = sys.stderr = os.fdopen(output, "w", buffering=1, encoding="utf-8", errors="replace")
        os.environ["RELIGHT_STORE"] = url
        for name in (SESSION_VARIABLE, PARENT_VARIABLE, "RELIGHT_DURABILITY"):
            os.environ.pop(name, None)
        faults.disarm()
        if fault:
            faults.arm_from(fault)
        else:
            for point in faults.POINTS:
                faults.arm(point, lambda name: passes.update([name]))
        life = Life(end="returned", value=_json(_called(agent)))
    # Whatever it raised is its end, which the parent compares; nothing may return into the parent's own code here.
    except BaseException as error:
        life = Life(end="raised", error=type(error).__name__, text=_traceback(error))
    finally:
        life.passes = dict(passes)
        report.with_suffix(".new").write_bytes(msgspec.json.encode(life))
        report.with_suffix(".new").rename(report)
        os._exit(0)


def _called(agent: Callable[[], Any]) -> Any:
    value = agent()
    if not inspect.isawaitable(value):
        return value

    async def awaited() -> Any:
        return await value

    return asyncio.run(awaited())


def _json(value: Any) -> Any:
    try:
        return msgspec.json.decode(msgspec.json.encode(value))
    except (TypeError, ValueError):
        return None


def _traceback(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))[-_SHOWN:]
