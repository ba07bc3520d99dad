"""Threads that run a user's functions: they cannot be stopped, so a caller that gives up leaves its outcome to them.

They are daemon threads, so that one that hangs does not keep a process from exiting; a process that exits waits a
moment for those whose callers gave up.
"""

from __future__ import annotations

import atexit
import contextvars
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from types import CoroutineType
from typing import Any, Final, Protocol, TypeVar

_T = TypeVar("_T")
EXIT_SECONDS: Final = 5.0
"""how long an exiting process waits for functions whose callers gave up"""


class _Threads:
    """The threads that run, and those of them whose callers gave up."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Start without threads: at first, and in a forked child, which has none of its parent's."""
        self.ended = threading.Condition()
        self.running: set[threading.Thread] = set()
        self.abandoned: set[threading.Thread] = set()

    def wait_at_exit(self) -> None:
        """Wait a moment, so that a tool that ends soon has its outcome recorded. One that does not is in doubt, as
        after a crash."""
        with self.ended:
            self.ended.wait_for(lambda: not self.abandoned, EXIT_SECONDS)


_threads = _Threads()
os.register_at_fork(after_in_child=_threads.begin)
atexit.register(_threads.wait_at_exit)


def start(work: Callable[[], object], name: str) -> threading.Thread:
    """Start a daemon thread of this name."""

    def run() -> None:
        try:
            work()
        finally:
            with _threads.ended:
                _threads.running.discard(thread)
                _threads.abandoned.discard(thread)
                _threads.ended.notify_all()

    thread = threading.Thread(target=run, name=name, daemon=True)
    with _threads.ended:
        thread.start()
        _threads.running.add(thread)
    return thread


def abandon(*threads: threading.Thread) -> None:
    """No caller waits for these any more, only the process when it exits."""
    with _threads.ended:
        _threads.abandoned.update(_threads.running.intersection(threads))


def uncancellable() -> Future[Any]:
    """A future whose outcome comes from a thread that cannot be stopped."""
    future: Future[Any] = Future()
    future.set_running_or_notify_cancel()
    return future


def settle(future: Future[_T], run: Callable[[], _T]) -> None:
    """Run it, and set what it returns or raises."""
    try:
        value = run()
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(value)


class Request(Protocol):
    """What a driver asks for: `sessions/coroutines.py` `Execute`."""

    run: Callable[[], Any]
    late: Callable[[Callable[[], Any]], None] | None
    is_running: bool


class Handover:
    """A user's function in a thread of its own, and who records its outcome: the caller that waits, or the thread, once
    that caller has given up."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._run = partial(contextvars.copy_context().run, request.run)
        self._lock = threading.Lock()
        self._given_up = False
        self.outcome = uncancellable()
        self.ended = uncancellable()
        """set when the thread is done"""
        self._thread = start(self._work, "relight-call")

    def _work(self) -> None:
        settled: Future[Any] = Future()
        settle(settled, self._run)
        with self._lock:
            given_up = self._given_up
            if not given_up:
                settle(self.outcome, settled.result)
        try:
            if given_up and self._request.late is not None:
                # No caller is left to raise to, and the thread must reach `finally`. Without a recorded outcome the
                # effect is in doubt, which is the truth.
                with suppress(BaseException):
                    self._request.late(partial(no_coroutine, settled))
        finally:
            self.ended.set_result(None)

    def give_up(self) -> bool:
        """Leave the outcome to the thread. False if it is there already."""
        with self._lock:
            if self.outcome.done():
                return False
            self._given_up = True
            if self._request.late is not None:
                self._request.is_running = True
                abandon(self._thread)
            return True


def no_coroutine(settled: Future[Any]) -> Any:
    """What a function returned. A coroutine that will not be awaited has not run: no outcome."""
    value = settled.result()
    if isinstance(value, CoroutineType):
        from asyncio import CancelledError  # here: only asyncio's programs make coroutines

        value.close()
        raise CancelledError
    return value
