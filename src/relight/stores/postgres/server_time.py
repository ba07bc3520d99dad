"""The server's time: the timeline of this store's leases, the same for every worker wherever it runs.

Whoever decides whether a lease has ended asks the server, inside the transaction that decides. Whoever only prolongs a
lease of its own with a step may count on from the server's last answer by this machine's clock that never stops: every
answer of the server brings its time along. Counting begins at the moment the answer came, so that a deadline can be
early by the length of one exchange, and never late.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from relight.ports.clock import Clock
from relight.system.fork_handlers import reset_after_fork
from relight.values.lease import Instant

MAX_AGE_US: Final = 60_000_000
"""of an answer that is counted on from: two clocks drift apart by some milliseconds meanwhile"""


class ServerTime:
    """Thread-safe. `instead` is another timeline in the place of the server's, for tests that move time by hand."""

    def __init__(self, clock: Clock, instead: Callable[[], Instant] | None) -> None:
        self._clock = clock
        self._instead = instead
        self._lock = threading.Lock()
        self._timeline = ""
        self._server_us = self._local_us = 0
        self._local_timeline: str | None = None
        reset_after_fork(self)

    def after_fork(self) -> None:
        """In a forked child nobody holds the lock."""
        self._lock = threading.Lock()

    def begin(self, store_id: str) -> None:
        """The store's own timeline: its name is the same for every worker."""
        self._timeline = f"postgres:{store_id}"

    def told(self, server_us: int) -> Instant:
        """The server has just said what time it is."""
        if self._instead is not None:
            return self._instead()
        local = self._clock.instant()
        with self._lock:
            self._server_us, self._local_us, self._local_timeline = server_us, local.us, local.timeline
        return Instant(timeline=self._timeline, us=server_us)

    def wall_us(self) -> int | None:
        """The time that a time to wake is compared with, where it is not the server's."""
        return None if self._instead is None else self._clock.now_us()

    def counted(self) -> Instant | None:
        """Now, counted on from the last answer; None where that is too long ago."""
        if self._instead is not None:
            return self._instead()
        local = self._clock.instant()
        with self._lock:
            passed_us = local.us - self._local_us
            if local.timeline != self._local_timeline or not 0 <= passed_us <= MAX_AGE_US:
                return None
            return Instant(timeline=self._timeline, us=self._server_us + passed_us)
