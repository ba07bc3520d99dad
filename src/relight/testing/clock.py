"""Time and chance that a test decides: a clock that moves when told, and ids that a seed repeats.

`ManualClock` is thread-safe, because stores read it from many threads. `sleep` moves it instead of waiting.
"""

from __future__ import annotations

import random
import threading
from typing import Final

from relight.values.lease import Instant

START_US: Final = 1_700_000_000_000_000
"""a moment in 2023: nothing in a test depends on today"""


class ManualClock:
    """A clock that stands still until it is moved."""

    def __init__(self, *, now_us: int = START_US, timeline: str = "manual") -> None:
        self._lock = threading.Lock()
        self._wall_us = now_us
        self._since_us = 0
        self._timeline = timeline

    def now_us(self) -> int:
        """Wall time, microseconds since 1970."""
        return self._wall_us

    def instant(self) -> Instant:
        """Now, on the timeline of this clock."""
        return Instant(timeline=self._timeline, us=self._since_us)

    def sleep(self, seconds: float) -> None:
        """Move on by that much."""
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        """Both kinds of time go on."""
        with self._lock:
            moved_us = round(seconds * 1e6)
            self._wall_us += moved_us
            self._since_us += moved_us

    def set_wall(self, now_us: int) -> None:
        """Only the wall's clock jumps, as wall clocks do."""
        with self._lock:
            self._wall_us = now_us

    def reboot(self, timeline: str) -> None:
        """Another boot: time since boot begins again, on a timeline of its own."""
        with self._lock:
            self._timeline, self._since_us = timeline, 0


class SeededEntropy:
    """Ids, keys and jitter from a seed, so that a failure can be replayed."""

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)
        self._lock = threading.Lock()

    def session_id(self) -> str:
        """32 hexadecimal characters."""
        with self._lock:
            return f"{self._random.getrandbits(128):032x}"

    def key(self) -> bytes:
        """8 bytes."""
        with self._lock:
            return self._random.randbytes(8)

    def jitter(self) -> float:
        """In [0, 1)."""
        with self._lock:
            return self._random.random()
