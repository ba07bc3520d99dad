"""Where the work of `relight.aio` is done: coroutines on the caller's event loop, the rest in three kinds of threads.

- Store calls go through a pool. They are bounded work (one commit, one page of rows), so the pool always moves on.
- A sync model, tool or probe has a thread of its own: a thousand that hang keep no store call waiting.
- So has a verb that takes long (a restore, an export), or as long as an agent runs.

Cancelling. A coroutine is cancelled and awaited. A store call that has begun is awaited, because who writes must know
what was written. A thread of the user's cannot be stopped: its caller goes on at once, and its outcome is handed to the
program (`late`), which keeps the session's lease until then. A process that ends waits a moment for such threads.
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
from relight.sessions.coroutines import Execute, Pause, Program, Request
from relight.sessions.running_effects import RunningEffects
from relight.sessions.tools import is_coroutine_function

_T = TypeVar("_T")
STORE_THREADS: Final = 32
"""store calls under way at once; further ones wait for them"""
EXIT_SECONDS: Final = 5.0
"""how long a process that ends waits for tools whose callers have given up"""


class _Threads:
    """The pool, and the threads whose callers have given up."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Without any thread: at first, and in a child, which has none of its parent's."""
        self.stores = ThreadPoolExecutor(max_workers=STORE_THREADS, thread_name_prefix="relight-store")
        self.abandoned: set[threading.Thread] = set()

    def wait_at_exit(self) -> None:
        """So that a tool that ends soon has its outcome recorded. One that does not is in doubt, as after a crash."""
        deadline = time.monotonic() + EXIT_SECONDS
        for thread in list(self.abandoned):
            thread.join(max(0.0, deadline - time.monotonic()))


_threads = _Threads()


os.register_at_fork(after_in_child=_threads.begin)
atexit.register(_threads.wait_at_exit)


def store_threads() -> ThreadPoolExecutor:
    """The pool, for a door that hands its own work over. Bounded work only, and nothing of the user's."""
    return _threads.stores


# -- store calls ----------------------------------------------------------------------------------------------


async def stored(function: Callable[[], _T], *, always: bool = False, undo: Callable[[_T], object] | None = None) -> _T:
    """A store call, in a thread of the pool and in this task's context.

    Where the caller is cancelled: not made if it has not begun (unless `always`), else awaited; `undo` takes back what
    it made, because nobody else has it.
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
    """Wait until it is done, however often this task is cancelled meanwhile; how it was."""
    waiter = asyncio.wrap_future(future)
    waiter.add_done_callback(_looked_at)
    cancelled: asyncio.CancelledError | None = None
    while not waiter.done():
        try:
            await asyncio.wait({waiter})
        except asyncio.CancelledError as error:
            cancelled = error
            if on_cancel is not None:
                on_cancel()
    return cancelled


def _looked_at(future: asyncio.Future[Any]) -> None:
    """An outcome that nobody waits for any more is no error of the event loop's."""
    if not future.cancelled():
        future.exception()


# -- verbs that take long -------------------------------------------------------------------------------------


async def alone(function: Callable[[], _T], running_effects: RunningEffects) -> _T:
    """A verb in a thread of its own. Who is cancelled goes on at once; the verb is done to its end, and the store stays
    open for it."""
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
    """A future whose outcome comes from a thread that nobody can stop."""
    future: Future[Any] = Future()
    future.set_running_or_notify_cancel()
    return future


async def _unless_cancelled(*futures: Future[Any]) -> None:
    """Wait until they are done; who is cancelled stops waiting, and they may come to their ends after the loop's."""
    waiters = [asyncio.wrap_future(one) for one in futures]
    for waiter in waiters:
        waiter.add_done_callback(_looked_at)
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
    """A daemon: what hangs does not keep the process from ending."""
    thread = threading.Thread(target=work, name=name, daemon=True)
    try:
        thread.start()
    except BaseException:
        undo()
        raise
    return thread


# -- programs -------------------------------------------------------------------------------------------------


class Abandoned:
    """The threads of one session whose callers have given up, as far as their outcomes are still to come."""

    def __init__(self) -> None:
        self._ends: set[Future[None]] = set()

    def add(self, ended: Future[None]) -> None:
        """This one is waited for."""
        self._ends.add(ended)
        ended.add_done_callback(self._ends.discard)

    async def ended(self) -> None:
        """Wait for all of them; who is cancelled stops waiting."""
        while ends := list(self._ends):
            await _unless_cancelled(*ends)


async def awaited(program: Program[_T], abandoned: Abandoned) -> _T:
    """Run a program to its end: its own lines in the pool, what it yields as `Execute` where that belongs."""
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
        await stored(program.close, always=True)
        raise


def _advanced(advance: Callable[[], Request]) -> tuple[bool, Any]:
    """(False, its next request) or (True, its result): a StopIteration cannot travel through a future."""
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
    """A coroutine as a task of this loop; cancelled and awaited where its caller is cancelled."""

    async def call() -> Any:
        return await make()

    task = asyncio.get_running_loop().create_task(call())
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
            task.cancel()
    if cancelled is None:
        return task.result()
    if not task.cancelled() and task.exception() is None:  # it had its result before it could be cancelled
        await _tell_late(request, task.result)
    raise cancelled


async def _tell_late(request: Execute, outcome: Callable[[], Any]) -> None:
    """Record what was learned after the caller was cancelled."""
    if request.late is not None:
        request.is_running = True
        with suppress(RelightError):  # then it is in doubt, and the cancellation matters more
            await stored(partial(request.late, outcome), always=True)


class _Handover:
    """A function of the user's in its thread, and who takes its outcome: the task that waits, or the thread itself."""

    def __init__(self, request: Execute) -> None:
        self._request = request
        self._run = partial(contextvars.copy_context().run, request.run)
        self._lock = threading.Lock()
        self._given_up = False
        self.outcome: Future[Any] = _uncancellable()
        self.ended: Future[None] = _uncancellable()
        """the thread has done everything"""

    def work(self) -> None:
        """In the thread."""
        settled: Future[Any] = Future()
        _settle(settled, self._run)
        with self._lock:
            given_up = self._given_up
            if not given_up:
                _settle(self.outcome, settled.result)
        try:
            if given_up and self._request.late is not None:
                with suppress(BaseException):  # nobody waits any more; without an outcome it is in doubt
                    self._request.late(partial(_no_coroutine, settled))
        finally:
            self.ended.set_result(None)
            _threads.abandoned.discard(threading.current_thread())

    def give_up(self, thread: threading.Thread) -> bool:
        """Leave the outcome to the thread. False: it is there already."""
        with self._lock:
            if self.outcome.done():
                return False
            self._given_up = True
            if self._request.late is not None:
                self._request.is_running = True
                _threads.abandoned.add(thread)
            return True


def _no_coroutine(settled: Future[Any]) -> Any:
    """What a function returned. A coroutine that nobody will await has not run: no outcome."""
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
        if handover.give_up(thread):
            if request.is_running:
                abandoned.add(handover.ended)
        else:
            await _tell_late(request, partial(_no_coroutine, handover.outcome))
        raise
    return handover.outcome.result()
