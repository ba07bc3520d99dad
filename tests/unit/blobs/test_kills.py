"""SIGKILL at every fault point around the upload and the sweep: whole or absent, and nothing is left for ever."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import relight
from relight.ports import faults
from relight.testing.workspace_kit import picture
from tests.support.child_processes import ForkServer
from tests.support.figures import Figure
from tests.support.machines import POOL, Fleet, Machine, noise, restored

pytestmark = pytest.mark.crash

UPLOAD = [name for name in faults.POINTS if name.startswith("upload.")]
SWEEP = [name for name in faults.POINTS if name.startswith("sweep.")]


class Killing:
    """A machine with two snapshots, whose next process is killed."""

    def __init__(self, path: Path, fork_server: ForkServer) -> None:
        self.fleet, self._fork_server, self.reported = Fleet(path), fork_server, path / "told"
        self.here = self.fleet.machine("here")
        self.here.write("a/edit", noise(3000))
        with self.here.open() as workspace:
            first = workspace.snapshot().id
            self.here.write("a/edit", noise(4000))
            self.ids = [first, workspace.snapshot().id]

    def do(self, what: str, fault: str = "", *, ids: list[str] | None = None) -> bool:
        """Whether it was killed on the way."""
        given = {"path": self.fleet.path, "machine": "here", "ids": ids or self.ids, "reported": self.reported}
        child = self._fork_server.run("remote_workspace_op", fault, what=what, **given)
        child.wait()
        assert child.was_killed or child.status == 0, child.said
        return child.was_killed

    def elsewhere(self) -> Machine:
        return self.fleet.machine("elsewhere")


@pytest.fixture
def killing(memory_path: Path, fork_server: ForkServer) -> Killing:
    return Killing(memory_path, fork_server)


@pytest.mark.guarantee("G2")
@pytest.mark.parametrize("name", [*UPLOAD, "snapshot.segment_rowed"])
def test_a_killed_upload_leaves_every_named_snapshot_whole(killing: Killing, name: str, figure: Figure) -> None:
    kills = 0
    if name == "snapshot.segment_rowed":
        for mark in killing.here.local.rglob("*.own"):
            mark.unlink()  # so that a new segment is made
    for nth in (1, 2, 3):
        for number in range(3):
            killing.here.write(f"many/{number}", noise(18_000))
        kills += killing.do("snapshot", f"{name}:{nth}:kill")
        reported = [killing.reported.read_text()] if killing.reported.exists() else []
        with killing.elsewhere().open() as workspace:
            for one in [*killing.ids, *reported]:
                assert workspace.verify(one) == (), f"killed at {name}"
        with killing.here.open() as workspace:
            fresh = workspace.snapshot()
            assert set(fresh.segments) <= workspace.pool.registered
        with killing.elsewhere().open() as workspace:
            restored(workspace, fresh.id)
            assert picture(killing.elsewhere().root) == picture(killing.here.root)
    assert kills > 0, "the point was never visited"
    with killing.here.open() as workspace:
        workspace.sweep(lambda: [fresh.id], thorough=True)
        assert workspace.verify(fresh.id) == ()
        kept = {key.split("/")[-2] for key in killing.fleet.names()}
        assert kept == workspace.pool.registered, "a row without content, or content without a row"
    figure("G2", f"{kills} kills at {name}, every named snapshot whole on another machine")


@pytest.mark.guarantee("G18")
@pytest.mark.parametrize("name", [*SWEEP, "upload.done"])
def test_a_killed_sweep_loses_nothing_and_another_machine_ends_it(killing: Killing, name: str, figure: Figure) -> None:
    kept = killing.ids[1]
    assert killing.do("sweep", f"{name}:1:kill", ids=[kept])
    there = killing.elsewhere()
    with there.open() as workspace:
        assert workspace.verify(kept) == ()
        workspace.sweep(lambda: [kept], thorough=True)
        assert workspace.verify(kept) == ()
        assert {key.split("/")[-2] for key in killing.fleet.names()} == workspace.pool.registered
    with killing.here.open() as workspace:
        assert workspace.verify(kept) == ()
        fresh = workspace.snapshot()
        assert set(fresh.segments) <= workspace.pool.registered
    figure("G18", f"a sweep of blobs killed at {name}, ended by another machine, nothing lost")


def test_a_row_is_there_before_its_first_blob(killing: Killing) -> None:
    """The order that everything rests on."""
    seen: list[tuple[set[str], frozenset[str]]] = []
    fleet = killing.fleet

    def look(_: str) -> None:
        seen.append(({key.split("/")[-2] for key in fleet.names()}, fleet.rows.list_segments(POOL)))

    faults.arm("upload.done", look)
    try:
        there = killing.elsewhere()
        there.write("b", noise(1000))
        with there.open() as workspace:
            workspace.snapshot()
    finally:
        faults.disarm()
    assert seen and all(segments <= rows for segments, rows in seen)


@pytest.mark.guarantee("G2")
@pytest.mark.parametrize("name", [*UPLOAD, "commit.enter", "commit.committed"])
def test_a_killed_step_names_only_what_another_machine_can_restore(
    memory_path: Path,
    fork_server: ForkServer,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    figure: Figure,
    sample: Callable[..., int],
) -> None:
    store, tree, blobs = memory_path / "relight.db", memory_path / "tree", f"file://{memory_path}/shared"
    tree.mkdir()
    monkeypatch.setenv("RELIGHT_BLOBS", blobs)
    kills = 0
    killing = [("append", f"{name}:{nth}:kill") for nth in range(1, sample(2, proof=20, teeth=2) + 1)]
    for verb, fault in (("prepare", ""), *killing, ("append", "")):
        child = fork_server.run("remote_file_op", fault, store=store, tree=tree, verb=verb, blobs=blobs)
        child.wait()
        assert child.was_killed or child.status == 0, child.said
        kills += child.was_killed
        shutil.rmtree(f"{store}.blobs", ignore_errors=True)  # another machine, as far as files go
        with relight.open(store) as rl:
            report = rl.history.verify("agent")
            assert report.problems == []
    assert kills >= 2
    figure("G2", f"{kills} kills of a session at {name}, all that its steps name is off the machine")
