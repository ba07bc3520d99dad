"""The work engine: how workers learn that there is something to do, and whoever attends to one session.

An engine delivers hints, and nothing depends on it being right. A ticket says that a session may be claimed; whether it
can be is decided by the claim, in the store. Delivered twice, the second claim is refused; not delivered at all, any
worker's `take` looks at the lines themselves now and then and finds it; delivered to a worker that dies, the lease runs
out, the session is put back in line, and that is a new hint.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from relight.values.queues import QueueKey


class Ticket(msgspec.Struct, frozen=True, kw_only=True):
    """A session that may be claimed now."""

    session: str
    line: QueueKey
    row: int | None = None
    """the engine's own number for it, where it keeps rows"""


class WorkEngine(Protocol):
    """One worker's side of an engine."""

    @property
    def name(self) -> str:
        """What it is called in settings and lists."""
        ...

    def prepare(self) -> None:
        """Make what it needs where it is missing; any number of workers may do so at once."""
        ...

    def take(self, lines: Sequence[QueueKey], limit: int) -> list[Ticket]:
        """At most so many tickets of these lines, the first first. A ticket is this worker's until `close_ticket`."""
        ...

    def wait(self, seconds: float) -> bool:
        """Until something may have been put in line, at most so long; is there reason to `take`? What was told once is
        not told again, whether or not somebody took."""
        ...

    def close_ticket(self, ticket: Ticket) -> None:
        """The attempt has ended, or the session could not be claimed. Closing twice does no harm."""
        ...

    def postpone(self, ticket: Ticket, seconds: float) -> None:
        """Its queue is full: offer it again after so long, to anybody."""
        ...

    def sweep(self, is_at_work: Callable[[str], bool]) -> int:
        """Close what dead workers left open, where its session is not at work; how many."""
        ...

    def close(self) -> None:
        """Give everything back. Idempotent."""
        ...


class Attendant(Protocol):
    """A process of its own that runs one attempt of one session, from a lease that a worker hands over to it."""

    def poll(self) -> int | None:
        """Its exit code once it has ended."""
        ...

    def drain(self) -> None:
        """Stop the program and put the session back in line; a second time: at once."""
        ...


class Attendants(Protocol):
    """Starts them."""

    def start(self, session: str, *, owner: str | None, retries: int | None) -> Attendant:
        """One for this session, whose lease is held under `owner`; None: it brings its workspace here, and claims."""
        ...

    def tidy(self) -> Attendant:
        """One that removes what retention says is over."""
        ...

    def close(self) -> None:
        """Nothing more is started. Those that run go on."""
        ...
