"""`s.sleep`: a durable pause. After a death only the rest is slept; where something can wake it, the process is given
back."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import relight
from relight.errors import UsageError, Waiting
from relight.ports import faults
from relight.sessions.session import writer_of
from relight.testing.clock import ManualClock
from tests.support.simulation import Simulation


class Died(BaseException):
    """The process ends."""


class Deadly(ManualClock):
    """A clock whose process dies when it has slept for so long in all."""

    left: float | None = None

    def sleep(self, seconds: float) -> None:
        if self.left is not None and self.left <= seconds:
            self.advance(self.left)
            self.left = None
            raise Died
        if self.left is not None:
            self.left -= seconds
        self.advance(seconds)


@pytest.fixture
def clock() -> Deadly:
    return Deadly()


@pytest.fixture
def world(tmp_path: Path, clock: Deadly) -> Simulation:
    return Simulation(tmp_path / "relight.db", time=clock)


def slept(world: Simulation, work: Callable[[], object]) -> float:
    before = world.time.now_us()
    work()
    return (world.time.now_us() - before) / 1e6


def say(s: relight.Session) -> None:
    s.append({"role": "assistant", "content": "x"})


def test_it_sleeps_and_the_next_step_ends_the_pause(world: Simulation) -> None:
    with world.start().session("a") as s:
        assert slept(world, lambda: s.sleep(3600)) == 3600
        say(s)
        assert slept(world, lambda: s.sleep(10)) == 10
        then = datetime.fromtimestamp(world.time.now_us() / 1e6 + 60, UTC)
        assert slept(world, lambda: s.sleep(until=then)) == 60
        before = s.head
        assert slept(world, lambda: s.sleep(until=0)) == 0
        assert s.head == before


def test_after_a_death_only_the_rest_is_slept_and_pauses_in_a_row_are_told_apart(
    world: Simulation, clock: Deadly
) -> None:
    def live(s: relight.Session) -> None:
        s.sleep(100)
        s.sleep(200)
        say(s)

    for dies_after in (30, 30, 90, 60):  # of 100 and 200: twice in the first, then twice in the second
        clock.left = dies_after
        with pytest.raises(Died):
            live(world.restart().session("a"))
    assert slept(world, lambda: live(world.restart().session("a"))) == 300 - 210
    assert slept(world, lambda: live(world.restart().session("a"))) == 300, (
        "after the step they are pauses of their own"
    )


def test_a_key_is_one_pause_for_good(world: Simulation) -> None:
    for wanted in (50.0, 0.0, 0.0):
        s = world.restart().session("a")
        assert slept(world, lambda s=s: s.sleep(50, key="first")) == wanted  # type: ignore[misc]
        say(s)


@pytest.mark.parametrize("point", ["commit.enter", "commit.committed", "commit.told"])
def test_killed_around_its_commit_it_sleeps_once(world: Simulation, point: str) -> None:
    s = world.start().session("a")

    def die(_: str) -> None:
        raise Died

    faults.arm(point, die)
    with pytest.raises(Died):
        s.sleep(100)
    faults.disarm()
    world.time.advance(40)
    rest = 100 if point == "commit.enter" else 60
    assert slept(world, lambda: world.restart().session("a").sleep(100)) == rest


def test_a_clock_that_is_set_never_lengthens_it_beyond_what_was_asked(world: Simulation, clock: Deadly) -> None:
    clock.left = 10
    with pytest.raises(Died):
        world.start().session("a").sleep(100)
    clock.set_wall(clock.now_us() - 86400 * 1_000_000)
    assert slept(world, lambda: world.restart().session("a").sleep(100)) == 100


def test_a_long_one_gives_the_process_back_where_it_can_be_woken(world: Simulation) -> None:
    rl = world.start()
    s = rl.session("a")
    writer_of(s).is_supervised = True
    with pytest.raises(Waiting, match="sleeping until 2023-") as waits, s:
        s.sleep(3600)
    info = rl.sessions.get("a")
    assert (info.status, info.wake_at, info.attention) == ("queued", waits.value.until, None)
    assert (info.reason or "").startswith("sleeping until 2023-")
    world.time.advance(3590)
    s = world.restart().session("a")
    writer_of(s).is_supervised = True
    assert slept(world, lambda: s.sleep(3600)) == 10


def test_readers_see_that_it_sleeps_and_that_it_went_on(world: Simulation, clock: Deadly) -> None:
    rl = world.start()
    s, seen = rl.session("a"), []

    def sleep(seconds: float) -> None:
        clock.advance(seconds)
        seen.append(rl.sessions.get("a"))

    clock.sleep = sleep  # type: ignore[method-assign]
    s.sleep(1200)
    assert (seen[1].reason or "").startswith("sleeping until")
    assert [one.attention for one in seen] == [None] * 20, "a pause is not quiet"
    assert (seen[-1].reason, rl.sessions.get("a").wake_at) == (None, None)


@pytest.mark.parametrize(
    "wrong", [{}, {"seconds": 1, "until": 2}, {"seconds": -1}, {"seconds": "1"}, {"until": "noon"}]
)
def test_what_is_no_time_is_refused_before_anything_is_written(world: Simulation, wrong: dict[str, Any]) -> None:
    with world.start().session("a") as s:
        before = s.head
        with pytest.raises(UsageError):
            s.sleep(**wrong)
        assert s.head == before


def test_many_sessions_sleep_in_one_loop_without_a_thread_each_and_are_cancelled_at_once(
    tmp_path: Path, sample: Callable[..., int]
) -> None:
    many = sample(40, proof=1000)

    async def one(rl: Any, number: int, seconds: float) -> None:
        async with await rl.session(f"s{number}") as s:
            await s.sleep(seconds)
            await s.complete(number)

    async def main() -> None:
        async with relight.aio.open(tmp_path / "a.db") as rl:
            async with asyncio.TaskGroup() as group:
                for number in range(many):
                    group.create_task(one(rl, number, 0.2))
            before = threading.active_count()
            tasks = [asyncio.create_task(one(rl, number, 3600)) for number in range(many, 2 * many)]
            deadline = time.monotonic() + 60
            while len([1 async for _ in rl.sessions.list(status="working")]) < many:
                assert time.monotonic() < deadline
                await asyncio.sleep(0.05)
            assert threading.active_count() <= before + 40, "no thread for each session"
            for task in tasks:
                task.cancel()
            assert all(
                isinstance(end, asyncio.CancelledError) for end in await asyncio.gather(*tasks, return_exceptions=True)
            )
            statuses = [info.status async for info in rl.sessions.list()]
            assert (statuses.count("completed"), statuses.count("terminated")) == (many, many)

    asyncio.run(main())
