"""SIGKILL at every fault point of snapshot, restore, undo and sweep: whole or absent, target or original."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from relight.ports import faults
from relight.testing.workspace_kit import picture
from tests.support.child_processes import ForkServer
from tests.support.figures import Figure
from tests.support.programs.file_op import change, grow
from tests.support.trees import open_tree

pytestmark = pytest.mark.crash

SNAPSHOT = [name for name in faults.POINTS if name.startswith("snapshot.")]
RESTORE = [name for name in faults.POINTS if name.startswith("restore.")]
SWEEP = [name for name in faults.POINTS if name.startswith("sweep.")]


class Garden:
    """A tree with two snapshots, and processes of which one is killed."""

    def __init__(self, path: Path, fork_server: ForkServer) -> None:
        self.root, self.home, self._fork_server = path / "tree", path / "home", fork_server
        self.reported = path / "told"
        self.system = "Linux"
        self.root.mkdir()
        grow(self.root)
        with open_tree(self.root, self.home) as workspace:
            first, self.then = workspace.snapshot().id, picture(self.root)
            change(self.root)
            second, self.now = workspace.snapshot().id, picture(self.root)
        self.ids = [first, second]
        (self.root / "mine").write_bytes(b"no snapshot of the session holds this")
        for one in (self.then, self.now):
            one[b"mine"] = picture(self.root)[b"mine"]

    def do(self, what: str, fault: str = "", *, home: Path | None = None, ids: list[str] | None = None) -> bool:
        """Whether it was killed on the way."""
        arguments = {"root": self.root, "home": home or self.home, "ids": ids or self.ids, "reported": self.reported}
        arguments["system"] = self.system
        child = self._fork_server.run("workspace_op", fault, what=what, **arguments)
        child.wait()
        assert child.was_killed or child.status == 0, child.said
        return child.was_killed


@pytest.fixture
def garden(memory_path: Path, fork_server: ForkServer) -> Garden:
    return Garden(memory_path, fork_server)


def visits(name: str, run: Callable[[str], bool], most: int) -> int:
    """Kill at the first, second, ... visit of a point until a run survives; how many kills there were."""
    for nth in range(1, most + 1):
        if not run(f"{name}:{nth}:kill"):
            return nth - 1
    return most


@pytest.mark.guarantee("G2")
@pytest.mark.parametrize("name", SNAPSHOT)
def test_a_killed_snapshot_leaves_every_named_one_whole(garden: Garden, name: str, figure: Figure) -> None:
    home, ids = garden.home, garden.ids
    if name in ("snapshot.segment_rowed", "snapshot.segment_created"):
        home, ids = garden.home.with_name("fresh"), []  # where no segment can be gone on with
    kills = 0
    for nth in (1, 3):
        (garden.root / "a/edit").write_bytes(os.urandom(5000))
        kills += garden.do("snapshot", f"{name}:{nth}:kill", home=home)
        reported = [garden.reported.read_text()] if garden.reported.exists() else []
        with open_tree(garden.root, home) as workspace:
            fresh = workspace.snapshot()
            for one in [*ids, fresh.id, *reported]:
                assert workspace.verify(one) == (), f"killed at {name}"
            assert workspace.read(fresh.id, b"a/edit") == (garden.root / "a/edit").read_bytes()
            assert set(fresh.segments) <= workspace.pool.registered
    assert kills > 0, "the point was never visited"
    figure("G2", f"{kills} kills at {name}, every named snapshot whole")


@pytest.mark.guarantee("G16")
@pytest.mark.parametrize(
    ("system", "name"),
    [("Linux", name) for name in RESTORE] + [("POSIX", "restore.set_aside"), ("POSIX", "restore.swapped")],
)
def test_a_killed_restore_ends_at_the_target_or_at_the_original(
    garden: Garden, name: str, system: str, figure: Figure, sample: Callable[..., int]
) -> None:
    """Linux exchanges names in one call; a POSIX system without it takes three renames of two calls each."""
    garden.system = system
    most = sample(2 if system == "Linux" else 3, proof=50, teeth=1)

    def forward(fault: str) -> bool:
        killed = garden.do("restore", fault)
        if killed:
            garden.do("restore")
        assert picture(garden.root) == garden.then, fault
        garden.do("undo")
        assert picture(garden.root) == garden.now, f"{fault}, then undone"
        return killed

    def backward(fault: str) -> bool:
        killed = garden.do("restore", fault)
        garden.do("undo")
        assert picture(garden.root) == garden.now, fault
        return killed

    kills = visits(name, forward, most) + visits(name, backward, most)
    assert kills > 0, "the point was never visited"
    assert not [path for path in picture(garden.root) if b".relight-" in path]
    figure("G16", f"{kills} kills at {name} ({system}): target or original, never a mix")


@pytest.mark.guarantee("G16")
@pytest.mark.parametrize("name", ["restore.begun", "restore.swapped", "restore.set_aside", "restore.acted"])
def test_a_killed_undo_is_undone_by_undo(garden: Garden, name: str) -> None:
    garden.do("restore")
    assert picture(garden.root) == garden.then
    assert garden.do("undo", f"{name}:1:kill")
    garden.do("undo")
    assert picture(garden.root) == garden.now


def test_what_somebody_wrote_into_an_interrupted_restore_is_kept(garden: Garden) -> None:
    """Killed between swap and look: the displaced content is unknown to every snapshot, so it must not go."""
    root = garden.root
    assert garden.do("restore", "restore.swapped:1:kill")
    [displaced] = [path for path in root.rglob("*") if ".relight-tmp-" in path.name and not path.name.endswith("p")]
    displaced.write_bytes(b"written by somebody else in that very moment")
    garden.do("restore")
    kept = [path for path in root.rglob("*") if ".relight-saved-" in path.name]
    assert [path.read_bytes() for path in kept] == [b"written by somebody else in that very moment"]


@pytest.mark.guarantee("G18")
@pytest.mark.parametrize("name", SWEEP)
def test_a_killed_sweep_loses_nothing_and_the_next_one_ends_it(garden: Garden, name: str, figure: Figure) -> None:
    kept = garden.ids[1]
    assert garden.do("sweep", f"{name}:1:kill", ids=[kept])
    with open_tree(garden.root, garden.home) as workspace:
        assert workspace.verify(kept) == ()
        fresh = workspace.snapshot()
        assert set(fresh.segments) <= workspace.pool.registered, "a snapshot relies on a segment that lost its row"
        assert workspace.verify(fresh.id) == ()
        workspace.sweep(lambda: [kept, fresh.id], thorough=True)
        assert workspace.verify(kept) == () and workspace.verify(fresh.id) == ()
        assert set(workspace.pool.files()) == set(workspace.pool.registered)
    figure("G18", f"a sweep killed at {name}, nothing lost")
