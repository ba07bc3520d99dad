"""How `relight.aio` runs work: coroutines on the caller's event loop, everything else in three kinds of threads.

- Store calls use a pool. They are bounded work (one commit, one page of rows), so the pool always makes progress.
- A sync model, tool or probe gets its own thread: a thousand that hang do not block a store call.
- So does a call that takes long (a restore, an export), or as long as an agent runs.

Cancelling: a coroutine is cancelled and awaited. A store call that has begun is awaited, because a writer must know
what was written. A user's thread cannot be stopped: its caller continues at once, and its outcome is passed to the
program (`late`), which keeps the session's lease until then. A process that exits waits a moment for such threads.
"""

from __future__ import annotations

import asyncio
import atexit
import contextvars
import inspect
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeVar

from relight.errors import RelightError
from relight.sessions.calls.running_effects import RunningEffects
from relight.sessions.calls.tools import is_coroutine_function
from relight.sessions.coroutines import Execute, Pause, Program, Request

_T = TypeVar("_T")
STORE_THREADS: Final = 32
"""concurrent store calls; further ones wait"""
EXIT_SECONDS: Final = 5.0
"""how long an exiting process waits for tools whose callers were cancelled"""


class _Threads:
    """The pool, and the threads whose callers were cancelled."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Start without threads: at first, and in a forked child, which has none of its parent's."""
        self.stores = ThreadPoolExecutor(max_workers=STORE_THREADS, thread_name_prefix="relight-store")
        self.abandoned: set[threading.Thread] = set()

    def wait_at_exit(self) -> None:
        """Wait a moment, so that a tool that ends soon has its outcome recorded. One that does not is in doubt, as
        after a crash."""
        deadline = time.monotonic() + EXIT_SECONDS
        for thread in list(self.abandoned):
            thread.join(max(0.0, deadline - time.monotonic()))


_threads = _Threads()


os.register_at_fork(after_in_child=_threads.begin)
atexit.register(_threads.wait_at_exit)


def store_threads() -> ThreadPoolExecutor:
    """The pool, for entry points that run their own bounded store work. Never user code."""
    return _threads.stores


# -- store calls ----------------------------------------------------------------------------------------------


async def stored(function: Callable[[], _T], *, always: bool = False, undo: Callable[[_T], object] | None = None) -> _T:
    """Run a store call in a thread of the pool, in this task's context.

    If the caller is cancelled, it is not made if it has not begun (unless `always`), else awaited; `undo` reverts its
    result, because no caller will have it.
    """
    future = _threads.stores.submit(contextvars.copy_context().run, function)
    cancelled = await _awaited(future, on_cancel=None if always else future.cancel)
    if cancelled is None:
        return future.result()
    if not future.cancelled() and future.exception() is None and undo is not None:
        with suppress(RelightError):  # the cancellation matters more
            await stored(partial(undo, future.result()), always=True)
    raise cancelled


async def _awaited(future: Future[_T], *, on_cancel: Callable[[], object] | None) -> asyncio.CancelledError | None:
    """Wait until it is done, however often this task is cancelled meanwhile; returns whether it was."""
    waiter = asyncio.wrap_future(future)
    waiter.add_done_callback(_mark_retrieved)
    cancelled: asyncio.CancelledError | None = None
    while not waiter.done():
        try:
            await asyncio.wait({waiter})
        except asyncio.CancelledError as error:
            cancelled = error
            if on_cancel is not None:
                on_cancel()
    return cancelled


def _mark_retrieved(future: asyncio.Future[Any]) -> None:
    """Mark an outcome as retrieved, so that the event loop does not log it as an unhandled error."""
    if not future.cancelled():
        future.exception()


# -- verbs that take long -------------------------------------------------------------------------------------


async def alone(function: Callable[[], _T], running_effects: RunningEffects) -> _T:
    """Run a call in its own thread. A cancelled caller continues at once; the call runs to its end, and the store
    stays open for it."""
    future: Future[_T] = _uncancellable()
    run = partial(contextvars.copy_context().run, function)

    def work() -> None:
        try:
            _settle(future, run)
        finally:
            running_effects.end("", "verb")

    running_effects.begin("", "verb")
    _start(work, "relight-verb", partial(running_effects.end, "", "verb"))
    await _unless_cancelled(future)
    return future.result()


def _uncancellable() -> Future[Any]:
    """A future whose outcome comes from a thread that cannot be stopped."""
    future: Future[Any] = Future()
    future.set_running_or_notify_cancel()
    return future


async def _unless_cancelled(*futures: Future[Any]) -> None:
    """Wait until they are done; a cancelled caller stops waiting, and they may end after the loop has."""
    waiters = [asyncio.wrap_future(one) for one in futures]
    for waiter in waiters:
        waiter.add_done_callback(_mark_retrieved)
    try:
        await asyncio.wait(waiters)
    except asyncio.CancelledError:
        for waiter in waiters:
            waiter.cancel()
        raise


def _settle(future: Future[_T], run: Callable[[], _T]) -> None:
    try:
        value = run()
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(value)


def _start(work: Callable[[], None], name: str, undo: Callable[[], object]) -> threading.Thread:
    """Start a daemon thread: one that hangs does not prevent the process from exiting."""
    thread = threading.Thread(target=work, name=name, daemon=True)
    try:
        thread.start()
    except BaseException:
        undo()
        raise
    return thread


# -- programs -------------------------------------------------------------------------------------------------


class Abandoned:
    """Threads of one session whose callers were cancelled and whose outcomes are still to come."""

    def __init__(self) -> None:
        self._ends: set[Future[None]] = set()

    def add(self, ended: Future[None]) -> None:
        """Wait for this one in `ended`."""
        self._ends.add(ended)
        ended.add_done_callback(self._ends.discard)

    async def ended(self) -> None:
        """Wait for all of them; a cancelled caller stops waiting."""
        while ends := list(self._ends):
            await _unless_cancelled(*ends)


async def awaited(program: Program[_T], abandoned: Abandoned) -> _T:
    """Run a program to its end: its own code in the pool, each `Execute` on the loop or in a thread of its own."""
    advance: Callable[[], Request] = partial(next, program)
    try:
        while True:
            is_end, value = await stored(partial(_advanced, advance))
            if is_end:
                result: _T = value
                return result
            try:
                answer = await _done(value, abandoned)
            except Exception as error:
                advance = partial(program.throw, error)
            else:
                advance = partial(program.send, answer)
    except BaseException:
        # Also if this task is cancelled: a generator left suspended would keep its effect counted as running, and with
        # it the lease.
        await stored(program.close, always=True)
        raise


def _advanced(advance: Callable[[], Request]) -> tuple[bool, Any]:
    """(False, its next request) or (True, its result): a StopIteration cannot pass through a future."""
    try:
        return False, advance()
    except StopIteration as end:
        return True, end.value


async def _done(request: Request, abandoned: Abandoned) -> Any:
    if isinstance(request, Pause):
        return await asyncio.sleep(request.seconds)
    if is_coroutine_function(request.function):
        return await _as_task(request, request.run)
    value = await _in_own_thread(request, abandoned)
    return await _as_task(request, lambda: value) if inspect.isawaitable(value) else value


async def _as_task(request: Execute, make: Callable[[], Any]) -> Any:
    """A coroutine as a task of this loop; cancelled and awaited if its caller is cancelled."""

    async def call() -> Any:
        return await make()

    task = asyncio.get_running_loop().create_task(call())
    cancelled: asyncio.CancelledError | None = None
    # A task may be cancelled more than once. Returning before the coroutine has ended would let it run on without an
    # owner, so each cancellation is passed on and the wait continues.
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
            task.cancel()
    if cancelled is None:
        return task.result()
    if not task.cancelled() and task.exception() is None:  # it finished before the cancellation reached it
        await _record_late(request, task.result)
    raise cancelled


async def _record_late(request: Execute, outcome: Callable[[], Any]) -> None:
    """Record an outcome that arrived after the caller was cancelled."""
    if request.late is not None:
        request.is_running = True
        with suppress(RelightError):  # the effect is then in doubt; the cancellation must still propagate
            await stored(partial(request.late, outcome), always=True)


class _Handover:
    """A user's function in its thread, and the owner of its outcome: the waiting task, or the thread itself."""

    def __init__(self, request: Execute) -> None:
        self._request = request
        self._run = partial(contextvars.copy_context().run, request.run)
        self._lock = threading.Lock()
        self._given_up = False
        self.outcome: Future[Any] = _uncancellable()
        self.ended: Future[None] = _uncancellable()
        """set when the thread is done"""

    def work(self) -> None:
        settled: Future[Any] = Future()
        _settle(settled, self._run)
        with self._lock:
            given_up = self._given_up
            if not given_up:
                _settle(self.outcome, settled.result)
        try:
            if given_up and self._request.late is not None:
                # No caller is left to raise to, and the thread must reach `finally`. Without a recorded outcome the
                # effect is in doubt, which is the truth.
                with suppress(BaseException):
                    self._request.late(partial(_no_coroutine, settled))
        finally:
            self.ended.set_result(None)
            _threads.abandoned.discard(threading.current_thread())

    def give_up(self, thread: threading.Thread) -> bool:
        """Leave the outcome to the thread. False if it is there already."""
        with self._lock:
            if self.outcome.done():
                return False
            self._given_up = True
            if self._request.late is not None:
                self._request.is_running = True
                _threads.abandoned.add(thread)
            return True


def _no_coroutine(settled: Future[Any]) -> Any:
    """What a function returned. A coroutine that will not be awaited has not run: no outcome."""
    value = settled.result()
    if inspect.iscoroutine(value):
        value.close()
        raise asyncio.CancelledError
    return value


async def _in_own_thread(request: Execute, abandoned: Abandoned) -> Any:
    handover = _Handover(request)
    thread = _start(handover.work, "relight-call", lambda: None)
    try:
        await _unless_cancelled(handover.outcome)
    except asyncio.CancelledError:
        # The thread may deliver its outcome at this very moment. `give_up` decides under a lock which side records it,
        # so it is recorded once.
        if handover.give_up(thread):
            if request.is_running:
                abandoned.add(handover.ended)
        else:
            await _record_late(request, partial(_no_coroutine, handover.outcome))
        raise
    return handover.outcome.result()
