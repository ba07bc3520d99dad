"""The engine that needs no server: the lines in the store are the queue, and a cheap token says that something moved.

It works on every store. A ticket is only a name: nothing is kept of it, so that there is nothing to lose or to sweep.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from relight.journal.queues.order import first_rows
from relight.ports.clock import Clock
from relight.ports.store import Store
from relight.ports.wakeup import Ticket
from relight.values.queues import QueueKey

LOOK_SECONDS: Final = 0.05
LONGEST_SECONDS: Final = 1.0
"""without a look: somebody's time to wake may have come"""


class EmbeddedEngine:
    """One worker's side. Not thread-safe: it is the loop's own."""

    name = "embedded"

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._postponed: dict[str, int] = {}
        """session to when it is offered again"""
        self._token: object = None
        """of the last change that was told"""
        self._looked_us = 0

    def prepare(self) -> None:
        """There is nothing to make."""

    def take(self, lines: Sequence[QueueKey], limit: int) -> list[Ticket]:
        self._looked_us = self._clock.instant().us
        self._postponed = {one: until for one, until in self._postponed.items() if until > self._looked_us}
        asked = limit + len(self._postponed)
        rows = first_rows((row for line in lines for row in self._store.list_waiting(line, asked)), asked)
        due = [row for row in rows if row.session not in self._postponed]
        return [Ticket(session=row.session, line=row.line) for row in due[:limit]]

    def wait(self, seconds: float) -> bool:
        """Every change is told once, and never without a rest: neither nothing to do, nor hands that are full, nor a
        store that others write to all the time makes a worker turn round and round."""
        begun_us = self._clock.instant().us
        while True:
            now_us = self._clock.instant().us
            left = seconds - (now_us - begun_us) / 1e6
            if left <= 0:
                break
            self._clock.sleep(min(LOOK_SECONDS, left))
            token = self._store.changed()
            if token != self._token:
                self._token = token
                return True
        if now_us - self._looked_us < LONGEST_SECONDS * 1e6:
            return False
        self._looked_us = now_us
        return True

    def close_ticket(self, ticket: Ticket) -> None:
        """Nothing is kept of it."""

    def postpone(self, ticket: Ticket, seconds: float) -> None:
        self._postponed[ticket.session] = self._clock.instant().us + round(seconds * 1e6)

    def sweep(self, is_at_work: Callable[[str], bool]) -> int:
        return 0

    def close(self) -> None:
        """The store is somebody else's."""
