"""Programs: use cases that call user code in the middle, written once for blocking and asynchronous callers.

A program is a generator. Between its yields it decides and commits; what it yields is work for its driver, which sends
back the outcome: a user's function (`Execute`), a wait (`Pause`), or other programs side by side (`Gather`). `drive`
does it in the calling thread, programs side by side in threads; `relight.aio` awaits coroutines on the caller's event
loop and advances the program in a thread.

A driver that gives up (cancelled task, Ctrl-C) closes the program. Closing records no outcome, so what had begun has
only an intent: in doubt, as after a crash. A thread cannot be cancelled and runs on: its driver sets `is_running`
before closing the program, and passes the outcome to `late` when there is one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Iterable, Sequence
from contextvars import copy_context
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from relight.ports.clock import Clock

if TYPE_CHECKING:
    from concurrent.futures import Future

_T = TypeVar("_T")
Outcomes: TypeAlias = Callable[[], Any]
"""returns what the function returned, or raises what it raised"""


class Execute:
    """Request to run a user's function: a model, a tool, a probe, the function of `once`."""

    __slots__ = ("function", "is_running", "late", "run", "timeout")

    def __init__(
        self,
        function: Callable[..., Any],
        run: Callable[[], Any] | None = None,
        *,
        late: Callable[[Outcomes], None] | None = None,
        timeout: float | None = None,
    ) -> None:
        self.function = function
        """as the user wrote it, to tell whether it is a coroutine function"""
        self.run: Callable[[], Any] = function if run is None else run
        """calls it with its arguments"""
        self.late = late
        """receives an outcome that arrives after the program was closed, or after its time; None: it is dropped"""
        self.timeout = timeout
        """seconds until the program gets TimedOut: a coroutine is cancelled and awaited, a plain function runs on"""
        self.is_running = False
        """the program does not wait any more while the function still runs; `late` is called at its end"""


class TimedOut(Exception):
    """A function did not end in its time."""

    def __init__(self, seconds: float | None) -> None:
        super().__init__(f"it did not end within {seconds:g} seconds")


class Pause:
    """Request to wait for some seconds."""

    __slots__ = ("seconds",)

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds


class Gather:
    """Request to run programs side by side, at most `limit` at a time; they begin in order. After one has raised, no
    other begins. Answered, when those that began have ended, with their outcomes in order."""

    __slots__ = ("limit", "programs")

    def __init__(self, programs: Sequence[Program[Any]], limit: int) -> None:
        self.programs = programs
        self.limit = limit


Request: TypeAlias = Execute | Pause | Gather
Program: TypeAlias = Generator[Request, Any, _T]


def drive(program: Program[_T], clock: Clock) -> _T:
    """Run a program to its end in this thread."""
    advance: Callable[[], Request] = functools.partial(next, program)
    while True:
        try:
            request = advance()
        except StopIteration as end:
            result: _T = end.value
            return result
        try:
            answer = _answer(request, clock)
        except Exception as error:
            advance = functools.partial(program.throw, error)
        # KeyboardInterrupt and SystemExit are not passed to the program: it would record an outcome for a function that
        # may have taken effect. Closing it leaves an intent, which is the truth.
        except BaseException:
            program.close()
            raise
        else:
            advance = functools.partial(program.send, answer)


def _answer(request: Request, clock: Clock) -> Any:
    if isinstance(request, Pause):
        clock.sleep(request.seconds)
        return None
    if isinstance(request, Gather):
        return _side_by_side(request, clock)
    return request.run() if request.timeout is None else _within(request)


def _within(request: Execute) -> Any:
    """What the function returns in its time, in a thread that runs on after it."""
    from concurrent.futures import wait  # here and below: most programs run nothing in threads

    from relight.system.threads.user_threads import Handover

    handover = Handover(request)
    try:
        wait([handover.outcome], request.timeout)
    except BaseException:
        handover.give_up()
        raise
    if not handover.outcome.done() and handover.give_up():
        raise TimedOut(request.timeout)
    return handover.outcome.result()


def _side_by_side(request: Gather, clock: Clock) -> list[Outcomes]:
    """Drive each program in a thread, with the caller's context variables."""
    from concurrent.futures import Future

    from relight.system.threads.user_threads import abandon, settle, start

    waiting, ended, lock = list(request.programs)[::-1], list[Future[Any]](), Lock()

    def work() -> None:
        while True:
            with lock:
                if not waiting:
                    return
                program, future = waiting.pop(), Future[Any]()
                ended.append(future)
            settle(future, functools.partial(drive, program, clock))
            if future.exception() is not None:
                with lock:
                    waiting.clear()

    threads = [
        start(functools.partial(copy_context().run, work), "relight-call")
        for _ in range(min(request.limit, len(waiting)))
    ]
    try:
        for thread in threads:
            thread.join()
    except BaseException:
        # Ctrl-C: what has begun cannot be stopped. It runs on and records its outcome; the session keeps its lease
        # until then. Nothing else begins.
        with lock:
            waiting.clear()
        abandon(*threads)
        raise
    return outcomes_of(ended)


def outcomes_of(ended: Iterable[Future[Any]]) -> list[Outcomes]:
    """The outcomes of programs that ran side by side. What is no `Exception` (a tool called `sys.exit`) is raised here,
    as a single program would raise it."""
    futures = list(ended)
    for future in futures:
        error = future.exception()
        if error is not None and not isinstance(error, Exception):
            raise error
    return [future.result for future in futures]
