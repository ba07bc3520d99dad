"""How much longer things take on this machine at this moment, because it has more to do than it has cores."""

from __future__ import annotations

import os
import time
from typing import Final

_WORK_SECONDS: Final = 0.2


def slowdown() -> float:
    """At least 1: what a piece of work takes by the clock for each second of processor time, now or lately."""
    began, worked = time.perf_counter(), time.thread_time()
    while time.thread_time() < worked + _WORK_SECONDS:
        pass
    now = (time.perf_counter() - began) / _WORK_SECONDS
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1), now)


def allowed(promised: float) -> float:
    """What is promised for a machine that has time, in whatever unit, as long as it may take on this one now."""
    return promised * slowdown()
