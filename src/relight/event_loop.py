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
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary

from relight.errors import RelightError
from relight.history.events import POLL_SECONDS
from relight.sessions.calls.running_effects import RunningEffects
from relight.sessions.calls.tools import is_coroutine_function
from relight.sessions.coroutines import Execute, Gather, Outcomes, Pause, Program, Request, TimedOut, outcomes_of
from relight.sessions.recorder import CommitProgram, driven
from relight.sessions.redacting_store import sharing
from relight.sessions.session_writer import SessionWriter
from relight.sessions.shared_commits import SharedCall, SharedCommits
from relight.system.threads.calls import Call
from relight.system.threads.user_threads import Handover, no_coroutine, settle, start, uncancellable
from relight.system.threads.worker_threads import WorkerThreads
from relight.telemetry.spans import is_traced

_T = TypeVar("_T")
_END: Final = object()
STORE_THREADS: Final = 128
"""concurrent store calls; further ones wait"""
_WAKEUP_SECONDS: Final = 0.05


class _Threads:
    """The pool for store calls."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Start without threads: at first, and in a forked child, which has none of its parent's."""
        self.stores = WorkerThreads("relight-store", STORE_THREADS)
        self.shared: WeakKeyDictionary[object, SharedCommits] = WeakKeyDictionary()
        """by store"""

    def end(self) -> None:
        """The process ends: let the calls that run end."""
        self.stores.close()


_threads = _Threads()
os.register_at_fork(after_in_child=_threads.begin)
atexit.register(_threads.end)


# -- store calls ----------------------------------------------------------------------------------------------


async def stored(function: Callable[[], _T], *, always: bool = False, undo: Callable[[_T], object] | None = None) -> _T:
    """Run a store call in a thread of the pool, in this task's context.

    If the caller is cancelled, it is not made if it has not begun (unless `always`), else awaited; `undo` reverts its
    result, because no caller will have it.
    """
    return await without_context(partial(contextvars.copy_context().run, function), always=always, undo=undo)


async def without_context(
    function: Callable[[], _T], *, always: bool = False, undo: Callable[[_T], object] | None = None
) -> _T:
    """The same, without a copy of this task's context."""
    call = Call[_T](_arrivals_here())
    try:
        _threads.stores.submit(partial(call.settle, function))
    except BaseException:
        call.cancel()
        raise
    cancelled = await _ended(call, on_cancel=None if always else call.cancel)
    if cancelled is None:
        return call.outcome()
    if not call.is_cancelled and call.error is None and undo is not None:
        with suppress(RelightError):  # the cancellation matters more
            await stored(partial(undo, call.result), always=True)
    raise cancelled


async def committed(program: CommitProgram[_T], writer: SessionWriter) -> _T:
    """Run a commit program in the thread that tasks share, in this task's context; in one of its own if the store has
    none, if it captures files, or if it ends spans, whose exporter may take any time.

    If the caller is cancelled, it is not run if it has not begun, else awaited."""
    recorder = writer.recorder
    store = sharing(recorder.store)
    if store is None or writer.files is not None or is_traced():
        return await stored(partial(driven, program, recorder.store))
    call = SharedCall(program, recorder.lock, _arrivals_here())
    _threads.shared.setdefault(store, SharedCommits()).add(call, store, _threads.stores.submit)
    cancelled = await _ended(call, on_cancel=call.cancel)
    if cancelled is not None:
        raise cancelled
    result: _T = call.outcome()
    return result


async def _ended(call: Call[_T], *, on_cancel: Callable[[], object] | None) -> asyncio.CancelledError | None:
    """Wait until it has ended, however often this task is cancelled meanwhile; returns whether it was."""
    loop = asyncio.get_running_loop()
    cancelled: asyncio.CancelledError | None = None
    while True:
        # Awaited also if it has ended already: a task of many quick calls must let others run.
        waiter = loop.create_future()
        call.wait(waiter)
        try:
            await waiter
        except asyncio.CancelledError as error:
            cancelled = error
            if on_cancel is not None:
                on_cancel()
        if call.is_ended:
            return cancelled


class _Arrivals:
    """Tells one event loop which store calls have ended. All that end until the loop gets to it are one wakeup of it: a
    thousand tasks would otherwise pay for a thousand, each a system call on both sides."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._expected_until = 0.0
        """until then a wakeup that was asked for is believed to come"""
        self._waiters: deque[asyncio.Future[None]] = deque()

    def put(self, waiter: asyncio.Future[None]) -> None:
        """Its call has ended; `wake` follows. From any thread."""
        self._waiters.append(waiter)

    def wake(self) -> None:
        """Have those answered that were put here before. From any thread."""
        # After `put`, and the opposite order in `_answer`: what is put after the last look asks for another wakeup. One
        # that a signal handler's exception took out of the loop is not waited for: the next asks for its own.
        now = time.monotonic()
        if now >= self._expected_until:
            self._expected_until = now + _WAKEUP_SECONDS
            with suppress(RuntimeError):  # the loop is closed: none of its tasks waits any more
                self.loop.call_soon_threadsafe(self._answer)

    def _answer(self) -> None:
        self._expected_until = 0.0
        try:
            while self._waiters:
                waiter = self._waiters[0]
                if not waiter.done():
                    waiter.set_result(None)
                self._waiters.popleft()  # only now: until then an exception of a signal handler leaves it here
        finally:
            if self._waiters:
                self.wake()


_here = threading.local()


def _arrivals_here() -> _Arrivals:
    """Of the loop that runs in this thread."""
    loop = asyncio.get_running_loop()
    found: _Arrivals | None = getattr(_here, "arrivals", None)
    if found is None or found.loop is not loop:
        found = _here.arrivals = _Arrivals(loop)
    return found


def _mark_retrieved(future: asyncio.Future[Any]) -> None:
    """Mark an outcome as retrieved, so that the event loop does not log it as an unhandled error."""
    if not future.cancelled():
        future.exception()


# -- iterators ------------------------------------------------------------------------------------------------


async def each(values: Iterator[_T | None]) -> AsyncIterator[_T]:
    """An asynchronous iterator whose steps run in a thread; None, while following, means to wait a moment."""
    try:
        while (value := await stored(partial(_next, values))) is not _END:
            if value is None:
                await asyncio.sleep(POLL_SECONDS)
            else:
                yield value
    finally:
        if isinstance(values, Generator):
            # A caller that leaves the loop early would otherwise leave a generator with an open read transaction to the
            # garbage collector.
            await stored(values.close, always=True)


def _next(values: Iterator[Any]) -> Any:
    return next(values, _END)


def lazily(make: Callable[[], Iterator[_T]]) -> Iterator[_T]:
    """The values of an iterator that is made by the first step, in its thread."""
    yield from make()


# -- verbs that take long -------------------------------------------------------------------------------------


async def alone(function: Callable[[], _T], running_effects: RunningEffects) -> _T:
    """Run a call in its own thread. A cancelled caller continues at once; the call runs to its end, and the store
    stays open for it."""
    future: Future[_T] = uncancellable()
    run = partial(contextvars.copy_context().run, function)

    def work() -> None:
        try:
            settle(future, run)
        finally:
            running_effects.end("", "verb")

    running_effects.begin("", "verb")
    try:
        start(work, "relight-verb")
    except BaseException:
        running_effects.end("", "verb")
        raise
    await _unless_cancelled(future)
    return future.result()


async def _unless_cancelled(*futures: Future[Any], timeout: float | None = None) -> None:
    """Wait until they are done, or the time is over; a cancelled caller stops waiting, and they may end after the loop
    has."""
    waiters = [asyncio.wrap_future(one) for one in futures]
    for waiter in waiters:
        waiter.add_done_callback(_mark_retrieved)
    try:
        await asyncio.wait(waiters, timeout=timeout)
    finally:
        for waiter in waiters:
            waiter.cancel()


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


async def awaited(program: Program[_T], abandoned: Abandoned, *, undo: Callable[[_T], object] | None = None) -> _T:
    """Run a program to its end: its own code in the pool, each `Execute` on the loop or in a thread of its own. `undo`
    reverts a result that comes after the caller was cancelled."""
    advance: Callable[[], Request] = partial(next, program)
    try:
        while True:
            is_end, value = await stored(partial(_advanced, advance), undo=partial(_undone, undo))
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


def _undone(undo: Callable[[Any], object] | None, advanced: tuple[bool, Any]) -> None:
    if undo is not None and advanced[0]:
        undo(advanced[1])


async def _done(request: Request, abandoned: Abandoned) -> Any:
    if isinstance(request, Pause):
        return await asyncio.sleep(request.seconds)
    if isinstance(request, Gather):
        return await _side_by_side(request, abandoned)
    if is_coroutine_function(request.function):
        return await _as_task(request, request.run)
    value = await _in_own_thread(request, abandoned)
    return await _as_task(request, lambda: value) if inspect.isawaitable(value) else value


async def _side_by_side(request: Gather, abandoned: Abandoned) -> list[Outcomes]:
    """Programs as tasks of this loop; if the caller is cancelled, each is cancelled and awaited."""
    waiting, ended = iter(request.programs), list[Future[Any]]()

    async def work() -> None:
        for program in waiting:
            future: Future[Any] = Future()
            ended.append(future)
            try:
                future.set_result(await awaited(program, abandoned))
            except BaseException as error:
                future.set_exception(error)
                for unbegun in waiting:
                    unbegun.close()

    loop = asyncio.get_running_loop()
    tasks = [loop.create_task(work()) for _ in range(min(request.limit, len(request.programs)))]
    cancelled: asyncio.CancelledError | None = None
    while not all(task.done() for task in tasks):
        try:
            await asyncio.wait(tasks)
        except asyncio.CancelledError as error:
            cancelled = error
            for task in tasks:
                task.cancel()
    if cancelled is not None:
        raise cancelled
    return outcomes_of(ended)


async def _as_task(request: Execute, make: Callable[[], Any]) -> Any:
    """A coroutine as a task of this loop; cancelled and awaited if its caller is cancelled."""

    async def call() -> Any:
        return await make()

    task = asyncio.get_running_loop().create_task(call())
    cancelled: asyncio.CancelledError | None = None
    timeout, is_late = request.timeout, False
    # A task may be cancelled more than once. Returning before the coroutine has ended would let it run on without an
    # owner, so each cancellation is passed on and the wait continues.
    while not task.done():
        try:
            await asyncio.wait({task}, timeout=timeout)
        except asyncio.CancelledError as error:
            cancelled = error
            task.cancel()
        else:
            if not task.done():
                task.cancel()  # its time is over
                timeout, is_late = None, True
    is_ended = not task.cancelled() and task.exception() is None
    if cancelled is None:
        if is_late and not is_ended:
            raise TimedOut(request.timeout)
        return task.result()
    if is_ended:  # it finished before the cancellation reached it
        await _record_late(request, task.result)
    raise cancelled


async def _record_late(request: Execute, outcome: Callable[[], Any]) -> None:
    """Record an outcome that arrived after the caller was cancelled."""
    if request.late is not None:
        request.is_running = True
        with suppress(RelightError):  # the effect is then in doubt; the cancellation must still propagate
            await stored(partial(request.late, outcome), always=True)


async def _in_own_thread(request: Execute, abandoned: Abandoned) -> Any:
    handover = Handover(request)
    try:
        await _unless_cancelled(handover.outcome, timeout=request.timeout)
    except asyncio.CancelledError:
        # The thread may deliver its outcome at this very moment. `give_up` decides under a lock which side records it,
        # so it is recorded once.
        if handover.give_up():
            if request.is_running:
                abandoned.add(handover.ended)
        else:
            await _record_late(request, partial(no_coroutine, handover.outcome))
        raise
    if not handover.outcome.done() and handover.give_up():
        raise TimedOut(request.timeout)
    return handover.outcome.result()
