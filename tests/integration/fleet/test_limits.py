"""Limits where a worker runs the session: it is halted once, nothing is tried again, and the next one goes on."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from relight.errors import LimitReached, NotResumable
from relight.values.policy import RunPolicy
from tests.support.fleet import Fleet, wait_until

SPENDING = """
import relight
from pathlib import Path

with relight.open() as rl, rl.session("any") as s:
    for turn in range(8):
        with Path("asked").open("a") as file:
            file.write("x")
        s.append({"role": "assistant", "content": str(turn)}, usage={"cost": 1.0})
    s.complete("all eight")
"""


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    made = Fleet(tmp_path, str(tmp_path / "relight.db"), RELIGHT_LEASE_SECONDS="6", RELIGHT_SWEEP_SECONDS="1")
    yield made
    made.close()


def test_a_worker_halts_what_reaches_its_limit_and_goes_on_with_the_next(fleet: Fleet) -> None:
    (fleet.directory / "spending.py").write_text(SPENDING)
    where = str(fleet.directory)
    slow = fleet.rl.queues.submit(["sleep", "600"], directory=where, policy=RunPolicy(seconds=1.0, retries=3))
    dear = fleet.rl.queues.submit(
        [sys.executable, "spending.py"], directory=where, policy=RunPolicy(budget=2.0, retries=3)
    )
    last = fleet.rl.queues.submit(["true"], directory=where)
    fleet.start("--concurrency", "1", "--until-empty")
    wait_until("the last one", lambda: fleet.rl.sessions.get(last.id).status == "completed", bound_seconds=60)
    for session, why in ((slow, "time limit reached"), (dear, "budget reached: $2.00 of $2.00")):
        info = fleet.rl.sessions.get(session.id)
        assert (info.status, info.attempt) == ("halted", 1) and why in (info.reason or ""), info
        assert info.failure is not None and info.failure.kind == "limit"
    assert (fleet.directory / "asked").read_text() == "xx"
    assert fleet.rl.sessions.get(slow.id).worked_seconds < 60


def test_a_worker_that_finds_a_limit_used_up_halts_the_session_and_starts_nothing(fleet: Fleet) -> None:
    job = fleet.rl.queues.submit(
        ["touch", "ran"], directory=str(fleet.directory), policy=RunPolicy(budget=2.0, library=True)
    )
    fleet.rl.runs.stop(job.id)
    with fleet.rl.session(job.id) as s, pytest.raises(LimitReached):
        s.append({"role": "assistant", "content": "dear"}, usage={"cost": 3.0})
    with pytest.raises(NotResumable, match="budget reached"):
        fleet.rl.runs.attend(job.id, worker="w", owner=None, retries=None)
    info = fleet.rl.sessions.get(job.id)
    assert (info.status, info.failure.kind if info.failure else None) == ("halted", "limit")
    assert not (fleet.directory / "ran").exists()
