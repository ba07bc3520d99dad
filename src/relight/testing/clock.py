"""A clock that tests advance, and ids from a seed."""

from __future__ import annotations

import random
import threading
from typing import Final

from relight.values.lease import Instant

START_US: Final = 1_700_000_000_000_000
"""a moment in 2023: nothing in a test depends on today"""


class ManualClock:
    """A clock that only moves when it is advanced; `sleep` advances it. Thread-safe."""

    def __init__(self, *, now_us: int = START_US, timeline: str = "manual") -> None:
        self._lock = threading.Lock()
        self._wall_us = now_us
        self._since_us = 0
        self._timeline = timeline

    def now_us(self) -> int:
        """Wall time in microseconds since 1970."""
        return self._wall_us

    def instant(self) -> Instant:
        """The present time on this clock's timeline."""
        return Instant(timeline=self._timeline, us=self._since_us)

    def sleep(self, seconds: float) -> None:
        """Advance the clock instead of waiting."""
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        """Advance wall time and time since boot."""
        with self._lock:
            moved_us = round(seconds * 1e6)
            self._wall_us += moved_us
            self._since_us += moved_us

    def set_wall(self, now_us: int) -> None:
        """Set wall time only, as an administrator or NTP does."""
        with self._lock:
            self._wall_us = now_us

    def reboot(self, timeline: str) -> None:
        """Simulate a reboot: time since boot restarts, on a new timeline."""
        with self._lock:
            self._timeline, self._since_us = timeline, 0


class SeededEntropy:
    """Ids, keys and jitter from a seed, so that a failure can be replayed."""

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)
        self._lock = threading.Lock()

    def session_id(self) -> str:
        with self._lock:
            return f"{self._random.getrandbits(128):032x}"

    def key(self) -> bytes:
        with self._lock:
            return self._random.randbytes(8)

    def jitter(self) -> float:
        with self._lock:
            return self._random.random()
