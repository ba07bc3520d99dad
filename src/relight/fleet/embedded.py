"""The engine that needs no server: the lines in the store are the queue, and a cheap token says that something moved.

It works on every store. A ticket is only a name: nothing is kept of it, so that there is nothing to lose or to sweep.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Final

from relight.journal.lining import first_of
from relight.model.queueing import Line
from relight.ports.clock import Clock
from relight.ports.engine import Ticket
from relight.ports.store import Store

LOOK_SECONDS: Final = 0.05
LONGEST_SECONDS: Final = 1.0
"""without a look: somebody's time to wake may have come"""


class EmbeddedEngine:
    """One worker's side. `stir` may be called from any thread."""

    name = "embedded"

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._stirred = threading.Event()
        self._put_off: dict[str, int] = {}
        """session to when it is offered again"""
        self._token: object = None
        self._looked_us = 0

    def prepare(self) -> None:
        """There is nothing to make."""

    def take(self, lines: Sequence[Line], limit: int) -> list[Ticket]:
        self._token, self._looked_us = self._store.changed(), self._clock.instant().us
        self._put_off = {one: until for one, until in self._put_off.items() if until > self._looked_us}
        asked = limit + len(self._put_off)
        rows = first_of((row for line in lines for row in self._store.list_waiting(line, asked)), asked)
        due = [row for row in rows if row.session not in self._put_off]
        return [Ticket(session=row.session, line=row.line) for row in due[:limit]]

    def wait(self, seconds: float) -> bool:
        begun_us = self._clock.instant().us
        while True:
            if self._is_stirred():
                return True
            left = seconds - (self._clock.instant().us - begun_us) / 1e6
            if left <= 0:
                return False
            self._clock.sleep(min(LOOK_SECONDS, left))

    def _is_stirred(self) -> bool:
        if self._stirred.is_set():
            self._stirred.clear()
            return True
        if self._clock.instant().us - self._looked_us >= LONGEST_SECONDS * 1e6:
            return True
        return self._store.changed() != self._token

    def stir(self) -> None:
        """Somebody in this process put a session in line."""
        self._stirred.set()

    def close_ticket(self, ticket: Ticket) -> None:
        """Nothing is kept of it."""

    def put_off(self, ticket: Ticket, seconds: float) -> None:
        self._put_off[ticket.session] = self._clock.instant().us + round(seconds * 1e6)

    def sweep(self, is_at_work: Callable[[str], bool]) -> int:
        return 0

    def close(self) -> None:
        """The store is somebody else's."""
