"""Machines whose clocks differ by hours stand in one line, wake at one time, and take what is due."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from relight import wiring
from relight.fleet.worker import claim
from relight.library.facade import Relight
from relight.system.machine import SystemClock
from relight.values.queues import QueueKey
from tests.integration.acceptance.conftest import Addresses
from tests.support.fleet import wait_until

HOUR = 3600.0


class Skewed(SystemClock):
    """A machine's wall clock that is wrong by so many seconds."""

    def __init__(self, seconds: float) -> None:
        self._us = round(seconds * 1e6)

    def now_us(self) -> int:
        return super().now_us() + self._us


def submitted(rl: Relight, **asked: float) -> str:
    return rl.queues.submit([sys.executable, "-c", ""], queue="q", directory="/", **asked).id  # type: ignore[arg-type]


def first(rl: Relight, limit: int = 10) -> list[str]:
    return [row.session for row in rl.store.list_waiting(QueueKey("q"), limit)]


@pytest.mark.parametrize("kind", ["postgres", "redis"])
def test_a_line_goes_by_the_servers_time_whatever_the_clocks_of_machines_say(
    kind: str, address_of: Addresses, tmp_path: Path
) -> None:
    address = address_of(kind, tmp_path)
    ahead, behind = (wiring.open(address, clock=Skewed(seconds)) for seconds in (HOUR, -HOUR))
    with ahead, behind:
        in_order = [submitted(rl) for rl in (ahead, behind, ahead, behind)]
        assert first(behind) == in_order
        later = [submitted(rl, not_before=0.5) for rl in (ahead, behind)]
        assert first(behind) == in_order
        wait_until("their time", lambda: set(later) <= set(first(ahead)), bound_seconds=60)
        far = submitted(behind, not_before=HOUR / 2)
        for rl in (ahead, behind):
            record = rl.store.find(far)
            assert record is not None and record.head is not None
            assert claim(rl._context, record.identity, record.head, seconds=5) is None
        for rl, session in zip((behind, ahead), later, strict=True):
            record = rl.store.find(session)
            assert record is not None and record.head is not None
            assert claim(rl._context, record.identity, record.head, seconds=5) is not None
