"""The server's time: the timeline of this store's leases, the same for all machines.

A write does not ask for it. Every reply brings the server's time, and until the next one it is estimated by adding what
has passed here since the reply arrived: never ahead of the server, and behind it by the latency of a reply.
"""

from __future__ import annotations

from typing import Final

from relight.ports.clock import Clock
from relight.stores.redis.server import Server
from relight.values.lease import Instant

TIMELINE: Final = "redis"
MAX_AGE_US: Final = 10_000_000
"""an older reply is not used for estimates"""


class ServerTime:
    """Estimates the server's time. `leases` replaces the server's clock, for tests with a manual clock."""

    def __init__(self, server: Server, clock: Clock, leases: Clock | None) -> None:
        self._server = server
        self._clock = clock
        self._leases = leases
        self._seen: tuple[int, Instant] | None = None

    def instant(self) -> Instant:
        """Now, asked of the server."""
        if self._leases is not None:
            return self._leases.instant()
        self.observe(self._server.time_us())
        return self.now()

    def wall_us(self) -> int | None:
        """The wall-clock time that due times are compared with, if it is not the server's."""
        return self._clock.now_us() if self._leases is not None else None

    def now(self) -> Instant:
        """Now, estimated from the last reply."""
        if self._leases is not None:
            return self._leases.instant()
        here = self._clock.instant()
        if self._seen is not None:
            at_us, there = self._seen
            if there.timeline == here.timeline and 0 <= here.us - there.us <= MAX_AGE_US:
                return Instant(timeline=TIMELINE, us=at_us + here.us - there.us)
        return Instant(timeline=TIMELINE, us=self.observe(self._server.time_us()))

    def observe(self, at_us: int) -> int:
        """Record the server's time in a reply that has just arrived."""
        self._seen = at_us, self._clock.instant()
        return at_us
