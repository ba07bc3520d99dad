"""Wakeup engine: how workers learn that a queued session may be claimed; and the attendants they start for one.

An engine delivers hints, and correctness does not depend on it: whether a session can be claimed is decided by the
claim, in the store. A hint delivered twice: the second claim is refused. A hint that is lost: `take` also reads the
queues themselves from time to time. A hint delivered to a worker that dies: its lease expires and the session is
requeued, which is a new hint.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from relight.values.queues import QueueKey


class Ticket(msgspec.Struct, frozen=True, kw_only=True):
    """A hint that a session may be claimed now."""

    session: str
    line: QueueKey
    row: int | None = None
    """the engine's own id for it, if it has rows of its own"""


class WorkEngine(Protocol):
    """A wakeup engine, as one worker uses it."""

    @property
    def name(self) -> str:
        """Its name in settings and lists."""
        ...

    def prepare(self) -> None:
        """Create or migrate its schema; any number of workers may do so at once."""
        ...

    def take(self, lines: Sequence[QueueKey], limit: int) -> list[Ticket]:
        """At most `limit` tickets of these queues, in queue order. A ticket is this worker's until `close_ticket`."""
        ...

    def wait(self, seconds: float) -> bool:
        """Wait at most so long for a session to be queued; whether to `take`. A wakeup is delivered once, whether or
        not the worker then takes."""
        ...

    def close_ticket(self, ticket: Ticket) -> None:
        """The attempt has ended, or the session could not be claimed. Idempotent."""
        ...

    def postpone(self, ticket: Ticket, seconds: float) -> None:
        """The queue has no free slot: offer the ticket again after so long, to any worker."""
        ...

    def sweep(self, is_at_work: Callable[[str], bool]) -> int:
        """Close tickets of dead workers whose sessions are not at work; how many."""
        ...

    def close(self) -> None:
        """Release connections and threads. Idempotent."""
        ...


class Attendant(Protocol):
    """A process that supervises one session, under a lease that it takes over from its worker."""

    def poll(self) -> int | None:
        """Its exit code once it has ended."""
        ...

    def drain(self) -> None:
        """Ask it to stop the program and requeue the session; called again: to kill the program."""
        ...


class Attendants(Protocol):
    """Starts the attendants of one worker."""

    def start(self, session: str, *, owner: str | None, retries: int | None) -> Attendant:
        """Start one for a session whose lease is held under `owner`; None: it restores the files, then claims."""
        ...

    def tidy(self) -> Attendant:
        """Start a process that applies the retention policy."""
        ...

    def close(self) -> None:
        """Start no more. Running attendants continue."""
        ...
