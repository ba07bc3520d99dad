"""The server's time: the timeline of this store's leases, the same for every worker wherever it runs.

Whether a lease has expired is decided by the server's time, read inside the transaction that decides. Extending one's
own lease may use an estimate: the last time the server reported, plus what has passed since on the monotonic clock.
That starts when the reply arrives, so a deadline may be early by one round trip, but is never late.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from relight.ports.clock import Clock
from relight.system.fork_handlers import reset_after_fork
from relight.values.lease import Instant

MAX_AGE_US: Final = 60_000_000
"""of a report to estimate from: until then two clocks drift apart by milliseconds only"""


class ServerTime:
    """Estimates the server's time. Thread-safe. `instead` replaces the server's timeline, for tests with a manual
    clock."""

    def __init__(self, clock: Clock, instead: Callable[[], Instant] | None) -> None:
        self._clock = clock
        self._instead = instead
        self._lock = threading.Lock()
        self._timeline = ""
        self._server_us = self._local_us = 0
        self._local_timeline: str | None = None
        reset_after_fork(self)

    def after_fork(self) -> None:
        """In a forked child: the lock may be held by a thread of the parent."""
        self._lock = threading.Lock()

    def begin(self, store_id: str) -> None:
        """Name the timeline after the store, so that it is the same for every worker."""
        self._timeline = f"postgres:{store_id}"

    def observe(self, server_us: int) -> Instant:
        """Record the time the server has just reported."""
        if self._instead is not None:
            return self._instead()
        local = self._clock.instant()
        with self._lock:
            self._server_us, self._local_us, self._local_timeline = server_us, local.us, local.timeline
        return Instant(timeline=self._timeline, us=server_us)

    def wall_us(self) -> int | None:
        """The wall-clock time that due times are compared with, if it is not the server's."""
        return None if self._instead is None else self._clock.now_us()

    def estimate(self) -> Instant | None:
        """Now, estimated from the last report; None if that is too old."""
        if self._instead is not None:
            return self._instead()
        local = self._clock.instant()
        with self._lock:
            passed_us = local.us - self._local_us
            if local.timeline != self._local_timeline or not 0 <= passed_us <= MAX_AGE_US:
                return None
            return Instant(timeline=self._timeline, us=self._server_us + passed_us)
