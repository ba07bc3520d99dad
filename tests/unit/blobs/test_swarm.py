"""Writers, sweepers and forgotten checkpoints at once, on one directory and over a blob store: nothing live is lost.

A step is committed as a store does it: its segments have their rows, and the step is there, in one moment.
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from relight.errors import Corrupt, NotFound
from relight.testing.workspace_kit import MemorySegments
from relight.values.snapshot import Snapshot
from relight.workspaces.manifest import Manifests
from relight.workspaces.policy import TreePolicy
from relight.workspaces.pool import sweep
from relight.workspaces.pool.pool import Pool
from relight.workspaces.workspace import TreeWorkspace
from tests.support.figures import Figure
from tests.support.machines import POOL, Fleet

WRITERS, SWEEPERS = 3, 2
TRIES = 20


class Steps(MemorySegments):
    """Rows, and the steps that were committed on them."""

    def __init__(self) -> None:
        super().__init__()
        self.moment = threading.RLock()
        self.live: dict[str, dict[str, bytes]] = {}

    def remove_segments(self, pool: str, segments: Iterable[str]) -> None:
        with self.moment:
            super().remove_segments(pool, segments)

    def commit(self, snapshot: Snapshot, files: dict[str, bytes]) -> bool:
        with self.moment:
            if set(snapshot.segments) <= self.list_segments(POOL):
                self.live[snapshot.id] = files
                return True
            return False


class Swarm:
    """Everybody."""

    def __init__(self, path: Path, seed: int, turns: int, *, far: bool) -> None:
        self.fleet, self.steps, self.far = Fleet(path), Steps(), far
        self.fleet.rows = self.steps  # type: ignore[assignment]
        self._seed, self._turns = seed, turns
        self.problems: list[BaseException] = []
        self.commits = self.refused = self.sweeps = 0
        self._working, self._news = threading.Event(), threading.Semaphore(0)

    def open(self, name: str) -> TreeWorkspace:
        machine = self.fleet.machine(name)
        if self.far:
            return machine.open()
        common = self.fleet.path / "common"
        return TreeWorkspace(machine.root, blobs=common, rows=self.steps, key=POOL, policy=TreePolicy())

    def pool(self, name: str) -> Pool:
        return self.fleet.machine(name).pool() if self.far else Pool(self.fleet.path / "common", POOL, self.steps)

    def run(self) -> None:
        writers = [threading.Thread(target=self._write, args=(number,)) for number in range(WRITERS)]
        sweepers = [threading.Thread(target=self._sweep, args=(number,)) for number in range(SWEEPERS)]
        self._working.set()
        for thread in (*writers, *sweepers):
            thread.start()
        for thread in writers:
            thread.join(300)
        self._working.clear()
        for thread in sweepers:
            thread.join(60)

    def _write(self, number: int) -> None:
        chance, name = random.Random(self._seed * 100 + number), f"writer{number}"
        try:
            for _ in range(self._turns):
                with self.open(name) as workspace:
                    for _ in range(chance.randint(1, 5)):
                        self._turn(workspace, chance)
        except BaseException as error:
            self.problems.append(error)

    def _turn(self, workspace: TreeWorkspace, chance: random.Random) -> None:
        for _ in range(chance.randint(1, 3)):
            data = b"shared %d" % chance.randrange(4) * 200 if chance.random() < 0.5 else os.urandom(3000)
            (workspace.path / f"f{chance.randrange(6)}").write_bytes(data)
        files = {path.name: path.read_bytes() for path in workspace.path.iterdir()}
        for _ in range(TRIES):
            if self.steps.commit(workspace.snapshot(), files):
                self.commits += 1
                self._news.release()
                break
            self.refused += 1
            workspace.recover()
        with self.steps.moment:
            if len(self.steps.live) > 6 and chance.random() < 0.9:
                del self.steps.live[chance.choice(list(self.steps.live))]

    def _sweep(self, number: int) -> None:
        chance = random.Random(self._seed * 1000 + number)
        try:
            while self._working.is_set() and not self.problems:
                self._news.acquire(timeout=0.1)  # a sweep for every step, as long as there are any
                pool = self.pool(f"sweeper{number}")
                mode = sweep.Mode(thorough=chance.random() < 0.5)
                try:
                    sweep.sweep(pool, Manifests(pool), self._live, dry_run=False, mode=mode)
                    self.sweeps += 1
                except (Corrupt, NotFound):
                    self.refused += 1  # of a checkpoint that was forgotten under it; the live ones are looked at below
                finally:
                    pool.close()
        except BaseException as error:
            self.problems.append(error)

    def _live(self) -> list[str]:
        with self.steps.moment:
            return list(self.steps.live)


@pytest.mark.guarantee("G18")
@pytest.mark.parametrize("far", [False, True])
def test_nothing_that_a_step_names_is_lost_among_writers_and_sweepers(
    tmp_path: Path, far: bool, sample: Callable[..., int], figure: Figure
) -> None:
    seed = random.SystemRandom().randrange(10**6)
    swarm = Swarm(tmp_path, seed, sample(4, proof=50, teeth=12), far=far)
    swarm.run()
    assert not swarm.problems, f"seed {seed}: {swarm.problems[0]!r}"
    with swarm.open("last") as workspace:
        for snapshot, files in swarm.steps.live.items():
            assert workspace.verify(snapshot) == (), f"seed {seed}"
            assert {name: workspace.read(snapshot, name.encode()) for name in files} == files, f"seed {seed}"
    assert swarm.sweeps > 0
    what = "blobs" if far else "one directory"
    figure("G18", f"{what}: {swarm.commits} steps beside {swarm.sweeps} sweeps of {SWEEPERS}, nothing live lost")
