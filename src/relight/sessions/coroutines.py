"""Programs: use cases with the user's own code in the middle, written once for both styles.

A program is a generator. Between its yields it decides and commits; what it yields is work that its driver has done and
sends back the outcome of: a function of the user's (`Execute`) or a wait (`Pause`). `drive` does all of it in the
calling thread; `relight.aio` runs coroutines on the caller's event loop and advances the program in a thread.

A driver that gives up (the task was cancelled, Ctrl-C) closes the program. Closing records no outcome, so what was
begun has an intent alone: in doubt, as after a crash. Only a thread that cannot be cancelled goes on: its driver sets
`is_running` before it closes the program, and hands the outcome to `late` when there is one.
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
    """Run a function of the user's: a model, a tool, a probe, the function of `once`."""

    __slots__ = ("function", "is_running", "late", "run")

    def __init__(
        self,
        function: Callable[..., Any],
        run: Callable[[], Any] | None = None,
        *,
        late: Callable[[Outcomes], None] | None = None,
    ) -> None:
        self.function = function
        """as the user wrote it: is it a coroutine function?"""
        self.run: Callable[[], Any] = function if run is None else run
        """call it with its arguments"""
        self.late = late
        """takes an outcome that came after the program was closed; None where nobody wants it then"""
        self.is_running = False
        """closed while the function could not be stopped: it still runs, and `late` is called at its end"""


class Pause:
    """Wait."""

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
        except BaseException:
            program.close()
            raise
        else:
            advance = functools.partial(program.send, answer)


def _sleep(clock: Clock, seconds: float) -> Any:
    clock.sleep(seconds)
    return None
