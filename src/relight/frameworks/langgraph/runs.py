"""Detects which run of a graph writes to a thread, and when the run is over.

A run begins by loading its thread, and LangGraph passes its `Runtime` to the saver with every call of that run: one
object per invocation. The saver claims the lease when a run begins, so that a second run is refused before any of its
nodes has run. LangGraph does not announce the end of a run. It is detected

- when the last checkpoint has nothing left to do, or an interrupt or error is written;
- when the task or thread that began it calls again from outside of any node, or has ended: a caller is in one run at a
  time. This does not depend on the runtime object, which others may still reference;
- half a second late, when nothing but this module references that object any more.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any, Final, NamedTuple, TypeVar

from langchain_core.runnables.config import var_child_runnable_config
from langgraph.checkpoint.serde.types import ERROR, INTERRUPT, TASKS

from relight.event_loop import without_context
from relight.sessions.recorder import Recorder
from relight.values.status import Status, StatusChange, bounded_text

_T = TypeVar("_T")

_RUNTIME: Final = "__pregel_runtime"
_TASK: Final = "__pregel_task_id"
_START: Final = "__start__"
_OURS: Final = 2
"""references to a run's object that this module holds itself"""
_REASON: Final = 300
_LOOK_SECONDS: Final = 0.5
"""between two checks whether a run is over"""
_MOMENTS: Final = 20
_MOMENT_SECONDS: Final = 0.005
_LOOKS_APART: Final = 60.0
"""minimum seconds between two thorough checks of a quiet run"""


class Caller:
    """The task or, where there is none, the thread that called the saver; None as `current` inside of a node, which
    belongs to a run that has not ended."""

    def __init__(self, who: asyncio.Task[Any] | threading.Thread) -> None:
        self._who = weakref.ref(who)

    @classmethod
    def current(cls) -> Caller | None:
        """The task or thread that calls now."""
        handed = _calling.get()
        if handed is not None:
            return handed.caller
        inside = var_child_runnable_config.get()
        if inside is not None and _TASK in (inside.get("configurable") or {}):
            return None
        try:
            task = asyncio.current_task()
        except RuntimeError:
            task = None
        return cls(task if task is not None else threading.current_thread())

    def is_same(self, other: Caller | None) -> bool:
        """Whether the caller is the present task or thread."""
        mine = self._who()
        return other is not None and mine is not None and mine is other._who()

    @property
    def has_ended(self) -> bool:
        """Whether the task or thread has ended."""
        who = self._who()
        if who is None:
            return True
        return who.done() if isinstance(who, asyncio.Task) else not who.is_alive()


class _Handed(NamedTuple):
    """The caller of an awaited method, for the thread that runs it."""

    caller: Caller | None


_calling: ContextVar[_Handed | None] = ContextVar("relight_langgraph_caller", default=None)


async def in_thread(function: Callable[..., _T], *args: Any) -> _T:
    """Call a function in the thread pool for store calls, on behalf of the awaiting task.

    Not in the event loop's own pool: nodes that block there must not delay a checkpoint."""
    # The pool references its work item, and with it all arguments and the context, for a moment after the result is
    # there. So the arguments are passed in a list that is emptied, and the context is not copied: a finished call must
    # leave no reference to its run's object, by whose reference count the end of the run is detected.
    held, handed = [function, *args], _Handed(Caller.current())

    def call() -> _T:
        what, *given = held
        held.clear()
        token = _calling.set(handed)
        try:
            done: _T = what(*given)
            return done
        finally:
            _calling.reset(token)

    return await without_context(call)


class Run:
    """One invocation of a graph."""

    def __init__(self, token: object, caller: Caller | None = None) -> None:
        self._token, self._caller = token, caller

    def is_over_for(self, caller: Caller | None) -> bool:
        """Whether it is over for certain: its caller calls again, or has ended."""
        return self._caller is not None and (self._caller.has_ended or self._caller.is_same(caller))

    def is_of(self, token: object) -> bool:
        """Whether this run belongs to the object."""
        return self._token is token

    @property
    def token(self) -> object:
        """LangGraph's runtime object of the run."""
        return self._token

    @property
    def is_alive(self) -> bool:
        """Whether anything else still references the run's object."""
        return sys.getrefcount(self._token) > _OURS

    def is_surely_alive(self) -> bool:
        """Like `is_alive`, without references that are garbage or about to go away."""
        # The traceback of a failed run is a reference cycle; a thread that has just finished may reference the object
        # until it is scheduled again, hence the short waits.
        if self.is_alive:
            gc.collect()
        for _ in range(_MOMENTS):
            if not self.is_alive:
                return False
            time.sleep(_MOMENT_SECONDS)
        return self.is_alive


class Pulse:
    """A lease that is renewed while a run is alive (`LeaseHolder`); reports when the run is over."""

    def __init__(self, recorder: Recorder, run: Run, *, quiet_seconds: float, over: Callable[[Pulse], None]) -> None:
        self._recorder, self._run = recorder, run
        self._quiet_seconds = quiet_seconds
        self._over = over
        self._seq, self._doubted_at = recorder.head.seq, time.monotonic()
        self._renewed_at = self._doubted_at
        self._epoch = recorder.epoch

    def beat_seconds(self) -> float | None:
        """Often, to notice the end of a run early."""
        seconds = self._recorder.beat_seconds() if self._recorder.epoch == self._epoch else None
        return min(seconds, _LOOK_SECONDS) if seconds is not None else None

    def beat(self) -> None:
        """Renew the lease as rarely as it allows; release it if the run is over."""
        if not self._is_needed():
            self._over(self)
            return
        now, pause = time.monotonic(), self._recorder.beat_seconds()
        if pause is None or now - self._renewed_at >= pause - _LOOK_SECONDS:
            self._recorder.beat()
            self._renewed_at = now

    def _is_needed(self) -> bool:
        """Whether a run still needs the lease; a run that was quiet for long is checked thoroughly."""
        if not self._run.is_alive:
            return False
        now = time.monotonic()
        if self._recorder.head.seq != self._seq:
            self._seq, self._doubted_at = self._recorder.head.seq, now
        elif now - self._doubted_at >= self._quiet_seconds:
            # The thorough check runs the garbage collector: at most once a minute for each quiet run.
            self._doubted_at = now + _LOOKS_APART
            return self._run.is_surely_alive()
        return True


def token_of(config: Mapping[str, Any]) -> object | None:
    """The runtime object of the calling run; None if a program calls the saver directly."""
    token: object | None = config["configurable"].get(_RUNTIME)
    return token


def is_nested(config: Mapping[str, Any]) -> bool:
    """Whether a subgraph calls: it belongs to the run of its parent."""
    configurable = config["configurable"]
    return _TASK in configurable or bool(configurable.get("checkpoint_ns"))


def is_last(checkpoint: Mapping[str, Any], metadata: Mapping[str, Any]) -> bool:
    """Whether the run has nothing left to do; False if that cannot be determined."""
    values = checkpoint["channel_values"]
    if metadata.get("source") != "loop" or _START not in checkpoint["channel_versions"] or _START in values:
        return False
    return not values.get(TASKS) and not any(_starts_a_node(name, value) for name, value in values.items())


def _starts_a_node(channel: str, value: Any) -> bool:
    if channel.startswith("branch:to:"):
        return True
    if channel.startswith("join:"):
        wanted = set(channel.removeprefix("join:").rpartition(":")[0].split("+"))
        return not isinstance(value, set) or wanted <= value
    return False


def rest_after(writes: list[tuple[str, Any]]) -> StatusChange | None:
    """The status change after these writes; None while the run continues."""
    for channel, value in writes:
        if channel == INTERRUPT:
            return StatusChange(status="waiting", reason=_line(_asked(value)) or "asks")
        if channel == ERROR:
            return (
                failed(value)
                if isinstance(value, BaseException)
                else StatusChange(status="failed", reason=bounded_text(str(value)))
            )
    return None


def failed(error: Any) -> StatusChange:
    """The status change of a run that ended with an error, of a node or of a refused save."""
    return StatusChange(status="failed", reason=bounded_text(f"{type(error).__name__}: {error}"))


def finished(status: Status) -> StatusChange:
    """The status change when a run is over."""
    return StatusChange(status=status, reason=None if status == "completed" else "the run is over")


def _asked(value: Any) -> str:
    first = value[0] if isinstance(value, list | tuple) and value else value
    return str(getattr(first, "value", first))


def _line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[0][:_REASON] if lines else ""
