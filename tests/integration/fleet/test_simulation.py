"""G8, G12: seeded schedules of workers, leases, clocks, sleeps and deaths over the real decisions.

A failure names its seed; `World(SEED).run(EVENTS)` repeats it.
"""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.integration.fleet.schedules import World
from tests.support.figures import Figure

EVENTS = 30


@pytest.mark.guarantee("G8")
@pytest.mark.guarantee("G12")
def test_no_schedule_gives_two_owners_doubles_a_step_or_strands_a_session(sample: Any, figure: Figure) -> None:
    schedules = sample(3_000, proof=1_000_000, teeth=1_500)
    begun, writes = time.process_time(), 0
    for seed in range(schedules):
        world = World(seed, workers=2 + seed % 2, sessions=1 + seed % 3)
        world.run(EVENTS)
        writes += world.writes
    rate = schedules / max(time.process_time() - begun, 1e-9)
    text = f"{schedules:,} schedules of workers, leases and clocks ({writes:,} writes): one owner, no step twice"
    figure("G8", f"{text}; seeds 0 to {schedules - 1}, {rate:,.0f} a second")
    figure("G12", f"the same schedules: 0 sessions stranded, no queue above its limit of {2}")
