"""Sweeping content off the machine: exact, safe beside writers and other sweepers, and nothing outlives it."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from relight.workspaces.manifest import Manifests
from relight.workspaces.pool import sweep
from relight.workspaces.pool.objects import digest
from relight.workspaces.pool.pool import Pool
from relight.workspaces.remote import locations
from tests.support.figures import Figure
from tests.support.machines import POOL, Fleet, Machine, noise

AT_ONCE = sweep.Mode()
THOROUGH = sweep.Mode(thorough=True)


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return Fleet(tmp_path)


def swept(machine: Machine, live: Iterable[str], mode: sweep.Mode = AT_ONCE, *, dry_run: bool = False) -> int:
    """What a sweep from this machine frees."""
    kept = list(live)
    pool = machine.pool()
    try:
        return sweep.sweep(pool, Manifests(pool), lambda: kept, dry_run=dry_run, mode=mode).bytes_removed
    finally:
        pool.close()


def worked(machine: Machine, turns: int) -> list[str]:
    with machine.open() as workspace:
        taken = []
        for turn in range(turns):
            machine.write("a", noise(20_000))
            machine.write("b", b"%d" % turn * 1000)
            taken.append(workspace.snapshot().id)
        return taken


@pytest.mark.guarantee("G18")
@pytest.mark.parametrize("mode", [AT_ONCE, THOROUGH])
def test_another_machine_frees_exactly_what_it_forecast(fleet: Fleet, mode: sweep.Mode, figure: Figure) -> None:
    here, there = fleet.machine("here"), fleet.machine("there")
    taken = worked(here, 5)
    kept = [taken[1], taken[4]]
    before = fleet.size_bytes()
    forecast = swept(there, kept, mode, dry_run=True)
    assert fleet.size_bytes() == before, "a forecast removed something"
    freed = swept(there, kept, mode)
    assert freed == forecast == before - fleet.size_bytes() > 50_000
    with here.open() as workspace:
        assert [workspace.verify(one) for one in kept] == [(), ()]
        fresh = workspace.snapshot()
        assert set(fresh.segments) <= workspace.pool.registered
    figure("G18", f"a sweep of blobs freed exactly the {forecast:,} bytes it had forecast")


@pytest.mark.guarantee("G18")
def test_not_a_byte_is_left_of_what_nobody_needs(fleet: Fleet) -> None:
    here, there = fleet.machine("here"), fleet.machine("there")
    worked(here, 3)
    worked(there, 2)
    swept(there, [], THOROUGH)
    assert fleet.names() == [] and fleet.files() == []
    assert fleet.rows.list_segments(POOL) == frozenset()
    with here.open():
        assert here.cached_bytes() == 0, "a machine keeps what is gone everywhere else"


def test_what_was_written_just_now_is_left_alone_for_a_while(fleet: Fleet) -> None:
    """Of a killed upload too: it might be one that is still going on."""
    here, there = fleet.machine("here"), fleet.machine("there")
    worked(here, 2)
    before = fleet.names()
    swept(there, [], sweep.Mode(grace_seconds=3600))
    assert fleet.names() == before
    swept(there, [], sweep.Mode(grace_seconds=-1))
    assert fleet.names() == []


def test_a_writer_that_was_swept_captures_again(fleet: Fleet) -> None:
    here, there = fleet.machine("here"), fleet.machine("there")
    here.write("a", noise(1000))
    with here.open() as workspace:
        first = workspace.snapshot()
        swept(there, [], THOROUGH)
        assert not set(first.segments) <= fleet.rows.list_segments(POOL), "its step would be committed"
        workspace.recover()
        second = workspace.snapshot()
        assert set(second.segments) <= fleet.rows.list_segments(POOL)
        assert workspace.verify(second.id) == ()


def test_two_sweepers_at_once_are_harmless(fleet: Fleet) -> None:
    here = fleet.machine("here")
    taken = worked(here, 6)
    kept = taken[::2]
    problems: list[BaseException] = []
    barrier = threading.Barrier(2)

    def work(name: str) -> None:
        try:
            barrier.wait(30)
            swept(fleet.machine(name), kept, THOROUGH)
        except BaseException as error:
            problems.append(error)

    for _ in range(5):
        threads = [threading.Thread(target=work, args=(name,)) for name in ("one", "two")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert not problems, problems[0]
        with fleet.machine("third").open() as workspace:
            assert [workspace.verify(one) for one in kept] == [()] * 3


@pytest.mark.parametrize("far", [False, True])
def test_of_two_sweepers_none_relies_on_what_the_other_removes(fleet: Fleet, far: bool) -> None:
    """An object lies in two segments, and each sweeper has chosen another one: the later one must copy it."""
    data = noise(500)
    ref = digest(data)

    def opened(name: str) -> Pool:
        machine = fleet.machine(name if far else "one")
        return machine.pool() if far else Pool(machine.local, POOL, fleet.rows)

    one, two = opened("one"), opened("two")
    for pool in (one, two):  # both look before either writes
        pool.has(ref)
    for pool in (one, two):
        pool.put(ref, data)
        pool.sync()
    for pool in (one, two):
        pool.close()
    assert len(fleet.rows.list_segments(POOL)) == 2
    sweeping, rival = opened("three"), opened("four")
    kept = sweeping.find(ref)
    assert kept is not None and rival.find(ref) is not None
    looks: list[str] = []

    class Needing(Manifests):
        def reachable(self, snapshot: str, seen: set[bytes]) -> Iterator[bytes]:
            seen.add(ref)
            yield ref

    def live() -> list[str]:
        if not looks:  # the sweeper has looked, and is about to rely on this one
            rival.rows.remove_segments(POOL, [kept.segment])
        looks.append("looked")
        return ["it"]

    sweep.sweep(sweeping, Needing(sweeping), live, dry_run=False, mode=THOROUGH)
    rival.discard(kept.segment)  # the rival had found it in the other one, too
    assert len(looks) == 2
    for pool in (rival, sweeping):
        pool.close()
    last = opened("last")
    assert last.read(ref) == data
    last.close()


def test_many_small_parts_are_written_together(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locations, "SCATTERED_PARTS", 8)
    here, there = fleet.machine("here"), fleet.machine("there")
    with here.open() as workspace:
        taken = []
        for turn in range(10):
            here.write(f"file{turn}", noise(500))
            taken.append(workspace.snapshot().id)
    assert len(fleet.names()) == 10
    swept(there, taken)
    assert len(fleet.names()) == 1
    with here.open() as workspace:
        assert [workspace.verify(one) for one in taken] == [()] * 10
    assert swept(there, taken) == 0, "what was written together is written together again"


def test_content_that_no_row_speaks_of_is_found_and_removed(fleet: Fleet) -> None:
    """A zombie's upload that arrived after its session was removed."""
    here = fleet.machine("here")
    worked(here, 1)
    fleet.rows.remove_segments(POOL, fleet.rows.list_segments(POOL))
    assert here.remote.pools() == {POOL}
    swept(fleet.machine("there"), [], AT_ONCE)
    assert here.remote.pools() == frozenset()
