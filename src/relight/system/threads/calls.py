"""Calls that threads make for the tasks of an event loop, whose own thread a signal handler may interrupt anywhere.

Python runs signal handlers in the main thread, and one may raise between any two of its instructions. The locks of
`concurrent.futures` are written in Python: an exception inside one leaves it taken, and the thread that takes it next
waits for ever. Here threads share only what one operation of a list, written in C, takes or gives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

_T = TypeVar("_T")


class Arrivals(Protocol):
    """Where the waiters of ended calls are put."""

    def put(self, waiter: Any) -> None:
        """Its call has ended; `wake` follows."""
        ...

    def wake(self) -> None:
        """Have those answered that were put here before."""
        ...


class Call(Generic[_T]):
    """A call that a thread makes, unless it is cancelled before."""

    __slots__ = ("_arrivals", "_unclaimed", "_waiters", "error", "is_cancelled", "is_ended", "result")

    def __init__(self, arrivals: Arrivals) -> None:
        self._arrivals = arrivals
        self._unclaimed = [None]
        self._waiters: list[Any] = []
        self.is_ended = False
        self.is_cancelled = False
        self.result: Any = None
        self.error: BaseException | None = None

    def claim(self) -> bool:
        """True for the first who asks: the thread that makes the call, or the caller who cancels it."""
        return taken(self._unclaimed)

    def cancel(self) -> None:
        """Do not make it, if it has not begun."""
        if self.claim():
            self.is_cancelled = True
            self.end()

    def settle(self, run: Callable[[], _T]) -> None:
        """Make the call, if it is not claimed yet, and answer its caller."""
        if self.claim():
            try:
                self.result = run()
            except BaseException as error:
                self.error = error
            self.end()()

    def end(self) -> Callable[[], None]:
        """Its outcome is set; returns what wakes its caller, once for all calls of one loop."""
        # In this order, and the opposite one in `wait`.
        self.is_ended = True
        for waiter in self._waiters:
            self._arrivals.put(waiter)
        return self._arrivals.wake

    def wait(self, waiter: Any) -> None:
        """Put this waiter among the arrivals when the call has ended."""
        self._waiters.append(waiter)
        if self.is_ended:
            self._arrivals.put(waiter)
            self._arrivals.wake()

    def outcome(self) -> _T:
        """What the call returned or raised."""
        if self.error is not None:
            raise self.error
        result: _T = self.result
        return result


def taken(one_of: list[None]) -> bool:
    """Whether there was one left to take."""
    try:
        one_of.pop()
    except IndexError:
        return False
    return True
