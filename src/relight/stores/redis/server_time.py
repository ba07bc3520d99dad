"""The time that leases count in: the server's, which is one for all machines.

A write does not wait for it. Every answer brings the server's time, and until the next one it is that, plus what has
passed on this machine since the answer came: never ahead of the server, and behind it by the way of an answer.
"""

from __future__ import annotations

from typing import Final

from relight.ports.clock import Clock
from relight.stores.redis.server import Server
from relight.values.lease import Instant

TIMELINE: Final = "redis"
MAX_AGE_US: Final = 10_000_000
"""an older answer is not relied on"""


class Moments:
    """`leases` takes the server's place as the clock of leases: for tests, which decide the time."""

    def __init__(self, server: Server, clock: Clock, leases: Clock | None) -> None:
        self._server = server
        self._clock = clock
        self._leases = leases
        self._seen: tuple[int, Instant] | None = None

    def instant(self) -> Instant:
        """Now, asked for."""
        if self._leases is not None:
            return self._leases.instant()
        self.seen(self._server.time_us())
        return self.now()

    def wall_us(self) -> int | None:
        """The time that a time to wake is compared with, where it is not the server's."""
        return self._clock.now_us() if self._leases is not None else None

    def now(self) -> Instant:
        """Now, as far as the last answer tells."""
        if self._leases is not None:
            return self._leases.instant()
        here = self._clock.instant()
        if self._seen is not None:
            at_us, there = self._seen
            if there.timeline == here.timeline and 0 <= here.us - there.us <= MAX_AGE_US:
                return Instant(timeline=TIMELINE, us=at_us + here.us - there.us)
        return Instant(timeline=TIMELINE, us=self.seen(self._server.time_us()))

    def seen(self, at_us: int) -> int:
        """An answer came, and this was the server's time in it."""
        self._seen = at_us, self._clock.instant()
        return at_us
