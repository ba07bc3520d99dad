"""Programs: use cases that call user code in the middle, written once for blocking and asynchronous callers.

A program is a generator. Between its yields it decides and commits; what it yields is work for its driver, which sends
back the outcome: a user's function (`Execute`) or a wait (`Pause`). `drive` does it in the calling thread;
`relight.aio` awaits coroutines on the caller's event loop and advances the program in a thread.

A driver that gives up (cancelled task, Ctrl-C) closes the program. Closing records no outcome, so what had begun has
only an intent: in doubt, as after a crash. A thread cannot be cancelled and runs on: its driver sets `is_running`
before closing the program, and passes the outcome to `late` when there is one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator
from typing import Any, TypeAlias, TypeVar

from relight.ports.clock import Clock

_T = TypeVar("_T")
Outcomes: TypeAlias = Callable[[], Any]
"""returns what the function returned, or raises what it raised"""


class Execute:
    """Request to run a user's function: a model, a tool, a probe, the function of `once`."""

    __slots__ = ("function", "is_running", "late", "run")

    def __init__(
        self,
        function: Callable[..., Any],
        run: Callable[[], Any] | None = None,
        *,
        late: Callable[[Outcomes], None] | None = None,
    ) -> None:
        self.function = function
        """as the user wrote it, to tell whether it is a coroutine function"""
        self.run: Callable[[], Any] = function if run is None else run
        """calls it with its arguments"""
        self.late = late
        """receives an outcome that arrives after the program was closed; None: it is dropped"""
        self.is_running = False
        """the program was closed while the function still runs; `late` is called at its end"""


class Pause:
    """Request to wait for some seconds."""

    __slots__ = ("seconds",)

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds


Request: TypeAlias = Execute | Pause
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
            answer = _sleep(clock, request.seconds) if isinstance(request, Pause) else request.run()
        except Exception as error:
            advance = functools.partial(program.throw, error)
        # KeyboardInterrupt and SystemExit are not passed to the program: it would record an outcome for a function that
        # may have taken effect. Closing it leaves an intent, which is the truth.
        except BaseException:
            program.close()
            raise
        else:
            advance = functools.partial(program.send, answer)


def _sleep(clock: Clock, seconds: float) -> Any:
    clock.sleep(seconds)
    return None
