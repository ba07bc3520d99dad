"""Embedded wakeup engine: polls the store's queue rows, and its change token to do so only when something changed.

It works on every store and needs no server. Tickets are not stored, so there is nothing to lose or to sweep.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from relight.journal.queues.order import first_rows
from relight.ports.clock import Clock
from relight.ports.store import Store
from relight.ports.wakeup import Ticket
from relight.values.queues import QueueKey

POLL_SECONDS: Final = 0.05
LONGEST_SECONDS: Final = 1.0
"""longest time without reading the queues: a wake time may have come, which changes no token"""


class EmbeddedEngine:
    """Wakeup by polling. Not thread-safe: used by one worker's loop."""

    name = "embedded"

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._postponed: dict[str, int] = {}
        """session to the instant at which it is offered again"""
        self._token: object = None
        """the store's change token at the last wakeup"""
        self._polled_us = 0

    def prepare(self) -> None:
        """Nothing to create: the queue rows are the store's."""

    def take(self, lines: Sequence[QueueKey], limit: int) -> list[Ticket]:
        self._polled_us = self._clock.instant().us
        self._postponed = {one: until for one, until in self._postponed.items() if until > self._polled_us}
        asked = limit + len(self._postponed)
        rows = first_rows((row for line in lines for row in self._store.list_waiting(line, asked)), asked)
        due = [row for row in rows if row.session not in self._postponed]
        return [Ticket(session=row.session, line=row.line) for row in due[:limit]]

    def wait(self, seconds: float) -> bool:
        """As the port says; returns True at most once per change of the store."""
        # Sleep first, then compare: a store that other processes write to all the time, or a worker without free
        # slots, must not make this a busy loop.
        begun_us = self._clock.instant().us
        while True:
            now_us = self._clock.instant().us
            left = seconds - (now_us - begun_us) / 1e6
            if left <= 0:
                break
            self._clock.sleep(min(POLL_SECONDS, left))
            token = self._store.changed()
            if token != self._token:
                self._token = token
                return True
        if now_us - self._polled_us < LONGEST_SECONDS * 1e6:
            return False
        self._polled_us = now_us
        return True

    def close_ticket(self, ticket: Ticket) -> None:
        """Nothing to do: tickets are not stored."""

    def postpone(self, ticket: Ticket, seconds: float) -> None:
        self._postponed[ticket.session] = self._clock.instant().us + round(seconds * 1e6)

    def sweep(self, is_at_work: Callable[[str], bool]) -> int:
        return 0

    def close(self) -> None:
        """Nothing to do: the store is closed by its owner."""
