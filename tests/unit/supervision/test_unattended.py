"""What nobody watches keeps to its hours and caps, also an agent that is at work when they are reached."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import relight
from relight.history.loading import resolve
from relight.supervision.agent import QUIET
from relight.system.machine import SystemClock
from relight.values.options import RunOptions
from relight.values.policy import RunPolicy
from tests.integration.fleet.loops import SimulatedWorker, existing
from tests.support import small_codex
from tests.support.program_harness import UNSET, ProgramHarness
from tests.support.shell import eventually
from tests.support.simulation import Simulation

TOKEN = "sk-ant-oat01-fakefakefakefake"
SLOW = {"text": "works", "calls": [{"shell": "echo begun >> log.txt; test -e over || sleep 60"}]}


class ShiftedClock(SystemClock):
    """The machine's clock, whose wall time a test moves on."""

    def __init__(self) -> None:
        super().__init__()
        self.shift = timedelta()

    def now_us(self) -> int:
        return super().now_us() + round(self.shift.total_seconds() * 1e6)


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[ProgramHarness]:
    made = ProgramHarness(
        tmp_path, [SLOW, {"text": "all done"}], CLAUDE_CODE_OAUTH_TOKEN=TOKEN, ANTHROPIC_API_KEY=UNSET
    )
    small_codex.install(made.bin)
    yield made
    made.close()


def test_an_agent_at_work_when_its_quiet_hours_begin_is_ended_and_continues_after_them(
    harness: ProgramHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {**harness.environment(), "TZ": "UTC"}.items():
        monkeypatch.setenv(name, value)
    time.tzset()
    clock, begin = ShiftedClock(), datetime.now(UTC) + timedelta(hours=2)
    hours = f"{begin:%H:%M}-{begin + timedelta(hours=3):%H:%M}"
    with relight.open(harness.store, clock=clock) as rl:
        policy = RunPolicy(quiet_hours=hours)
        options = RunOptions(directory=str(harness.work), agent="claude", name="job", policy=policy)
        command = ["claude", "-p", "do it", "--output-format", "stream-json", "--verbose"]
        supervision = rl.runs.supervise(rl.runs.plan_launch(command, options))
        running = threading.Thread(target=supervision.run, daemon=True)
        running.start()
        eventually((harness.work / "log.txt").exists, what="the call")
        clock.shift = timedelta(hours=2, minutes=1)
        info = harness.reaches("queued")
        assert info.reason == QUIET
        assert info.wake_at is not None and timedelta(hours=2) < info.wake_at - begin < timedelta(hours=4)
        eventually(lambda: not harness.marked(), what="the end of all that it started")
        asked = len(harness.model.requests())
        # A restart of the supervisor within the hours: it waits, and nobody asks the model.
        supervision.interrupt(15)
        running.join(30)
        (harness.work / "over").touch()
        again = rl.runs.supervise("job")
        running = threading.Thread(target=again.run, daemon=True)
        running.start()
        eventually(lambda: again.outcome is not None, what="a report that it waits")
        assert (harness.known().status, len(harness.model.requests())) == ("queued", asked)
        clock.shift = timedelta(hours=6)
        running.join(60)
        assert harness.known().status == "completed", harness.known().reason
        assert resolve(rl.store, "job").identity.agent == "claude"


def limit(reset: int) -> dict[str, Any]:
    unified = "anthropic-ratelimit-unified-"
    told = {"status": "rejected", "reset": str(reset), "representative-claim": "five_hour"}
    return {"status": 429, "headers": {f"{unified}{name}": value for name, value in told.items()}}


def test_the_last_permitted_limit_of_an_agent_at_work_halts_it_and_no_other_one_continues(
    harness: ProgramHarness,
) -> None:
    harness.play([{"text": "works", "calls": [{"shell": "echo one >> log.txt"}]}, [limit(int(time.time()) + 3600)]])
    done = harness.run("do the task", "--fallback", "codex", "--windows", "1")
    assert done.returncode != 0
    info = harness.known()
    assert (info.status, info.agent) == ("halted", "claude")
    assert "1 usage limits, of 1" in (info.reason or "")
    assert harness.marked() == []
    done = harness.relight("resume", "job", "--yes")  # a person may try again; the cap holds
    info = harness.known()
    assert (info.status, info.agent) == ("halted", "claude"), done.stderr
    assert "2 usage limits, of 1" in (info.reason or "")


def test_a_pause_stays_after_a_reboot() -> None:
    world = Simulation()
    worker = SimulatedWorker(world)
    session = existing(world, worker.rl)
    worker.step(3)
    assert worker.loop.running == (session,)
    worker.attendants.of(session).take_over()
    world.reboot()
    early = SimulatedWorker(world, name="early")
    early.rl.admin.pause(by="ada", reason="the bill")
    early.step(5)
    assert not early.loop.running
    world.reboot()
    later = SimulatedWorker(world, name="later")
    found = later.rl.admin.paused()
    assert found is not None and (found.by, found.reason) == ("ada", "the bill")
    later.pass_time(120)
    assert not later.loop.running and later.rl.sessions.get(session).status in ("queued", "terminated")
    later.rl.admin.unpause()
    later.pass_time(120)
    assert later.loop.running == (session,)
