"""What one machine captured, another restores: byte for byte, by fetching what it needs, while both go on writing."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pytest

from relight.blobs.directory import DirectoryBlobs
from relight.errors import Corrupt, NotFound, OverQuota, StoreUnavailable, WorkspaceUnusable
from relight.ports.workspace import Workspace
from relight.testing.workspace_kit import WorkspaceChecks, picture
from relight.workspaces.remote import part
from tests.support.figures import Figure
from tests.support.machines import POOL, Fleet, noise, restored
from tests.support.programs.file_op import change, grow


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return Fleet(tmp_path)


class FarChecks(WorkspaceChecks):
    """The kit's workspaces, all on one machine whose content lies elsewhere."""

    def __init__(self, directory: Path, cache_bytes: int | None) -> None:
        super().__init__(directory)
        self.fleet = Fleet(directory / "fleet")
        self.cache_bytes = cache_bytes

    def open(self, path: Path) -> Workspace:
        machine = self.fleet.machine("one", self.cache_bytes)
        machine.root = path
        return machine.open()


@pytest.mark.guarantee("G16")
@pytest.mark.parametrize("cache_bytes", [None, 0])
def test_a_workspace_off_the_machine_keeps_every_promise_of_the_kit(tmp_path: Path, cache_bytes: int | None) -> None:
    checks = list(FarChecks(tmp_path, cache_bytes).checks())
    assert len(checks) >= 11
    for check in checks:
        check()


@pytest.mark.guarantee("G16")
def test_another_machine_restores_every_snapshot_byte_for_byte(fleet: Fleet) -> None:
    here, there = fleet.machine("here"), fleet.machine("there")
    grow(here.root)
    with here.open() as workspace:
        first, then = workspace.snapshot().id, picture(here.root)
        change(here.root)
        here.write("big", noise(9_000_000))  # several chunks, several parts
        second, now = workspace.snapshot().id, picture(here.root)
    with there.open() as workspace:
        for snapshot, wanted in ((second, now), (first, then), (second, now)):
            restored(workspace, snapshot)
            assert picture(there.root) == wanted
            assert workspace.verify(snapshot) == ()
        assert workspace.diff(first, second)


def test_only_what_is_needed_is_fetched(fleet: Fleet) -> None:
    here, there = fleet.machine("here"), fleet.machine("there")
    for number in range(6):
        here.write(f"big{number}", noise(3_900_000))
    with here.open() as workspace:
        workspace.snapshot()
        here.write("small", b"a small file")
        snapshot = workspace.snapshot().id
    assert fleet.size_bytes() > 20_000_000
    fleet.blobs.fetched_bytes = 0
    with there.open() as workspace:
        assert workspace.read(snapshot, b"small") == b"a small file"
        one = fleet.blobs.fetched_bytes
        assert one < 200_000, "a small file has brought the large ones along"
        assert workspace.read(snapshot, b"big3") == (here.root / "big3").read_bytes()
        assert fleet.blobs.fetched_bytes - one < 2 * part.PART_BYTES
        two = fleet.blobs.fetched_bytes
        workspace.read(snapshot, b"big3")
        assert fleet.blobs.fetched_bytes == two, "what was fetched once is fetched again"
    with there.open() as workspace:
        assert workspace.read(snapshot, b"small") == b"a small file"
        assert fleet.blobs.fetched_bytes == two, "the next process has to fetch it again"


@pytest.mark.guarantee("G17")
def test_two_machines_write_one_pool_at_once(fleet: Fleet, figure: Figure) -> None:
    machines = [fleet.machine(name) for name in ("one", "two")]
    taken: list[tuple[str, dict[str, bytes]]] = []
    problems: list[BaseException] = []

    def work(number: int) -> None:
        machine = machines[number]
        try:
            with machine.open() as workspace:
                for turn in range(6):
                    files = {"same": b"shared %d" % turn * 300, f"own{number}": noise(3000)}
                    for name, data in files.items():
                        machine.write(name, data)
                    taken.append((workspace.snapshot().id, files))
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not problems, problems[0]
    with fleet.machine("third").open() as workspace:
        for snapshot, files in taken:
            assert workspace.verify(snapshot) == ()
            for name, data in files.items():
                assert workspace.read(snapshot, name.encode()) == data
    figure("G17", f"{len(taken)} snapshots of two machines in one pool, all whole on a third")


def test_the_next_process_goes_on_in_the_segment_of_its_machine(fleet: Fleet) -> None:
    here, there = fleet.machine("here"), fleet.machine("there")
    for turn in range(4):
        here.write("a", b"turn %d" % turn)
        with here.open() as workspace:
            snapshot = workspace.snapshot()
    assert len(fleet.rows.list_segments(POOL)) == 1
    assert len(fleet.names()) == 4, "one part a snapshot"
    with there.open() as workspace:
        there.write("b", b"another machine's")
        workspace.snapshot()
    assert len(fleet.rows.list_segments(POOL)) == 2, "nobody goes on in the segment of another machine"
    assert set(snapshot.segments) <= fleet.rows.list_segments(POOL)


def test_a_copied_local_directory_does_not_overwrite_anything(fleet: Fleet) -> None:
    """Two machines from one image believe that the same segment is theirs: the second one to write is told."""
    one, two = fleet.machine("one"), fleet.machine("two")
    one.write("a", b"first")
    with one.open() as workspace:
        workspace.snapshot()
    shutil.copytree(one.home, two.home, dirs_exist_ok=True)
    with one.open() as first, two.open() as second:
        one.write("a", b"of one")
        mine = first.snapshot().id
        two.write("a", b"of two")
        yours = second.snapshot().id
        one.write("a", b"of one again")
        with pytest.raises(StoreUnavailable, match="another writer"):
            first.snapshot()
        again = first.snapshot().id
        assert first.read(mine, b"a") == b"of one"
        assert first.read(yours, b"a") == second.read(yours, b"a") == b"of two"
        assert first.read(again, b"a") == second.read(again, b"a") == b"of one again"


def test_the_cache_keeps_its_bound_and_loses_nothing(fleet: Fleet) -> None:
    bound = 1_000_000
    here = fleet.machine("here", bound)
    with here.open() as workspace:
        taken = []
        for _ in range(12):
            here.write("a", noise(200_000))
            taken.append((workspace.snapshot().id, (here.root / "a").read_bytes()))
            assert here.cached_bytes() <= bound
        for snapshot, data in taken:
            assert workspace.read(snapshot, b"a") == data
            assert here.cached_bytes() <= bound
    assert fleet.size_bytes() > 2 * bound


def test_what_is_damaged_in_the_cache_is_fetched_again(fleet: Fleet) -> None:
    here = fleet.machine("here")
    here.write("a", b"some content" * 500)
    with here.open() as workspace:
        snapshot = workspace.snapshot().id
    for path in (here.local / POOL / "parts").iterdir():
        path.write_bytes(path.read_bytes().translate(bytes(range(255, -1, -1))))
    for path in here.local.rglob("*.idx"):
        path.unlink()
    with here.open() as workspace:
        assert workspace.verify(snapshot) == ()
        assert workspace.read(snapshot, b"a") == b"some content" * 500


@pytest.mark.guarantee("G5")
@pytest.mark.parametrize("what", ["gone", "cut", "flipped"])
def test_damage_there_is_named_and_the_other_snapshots_are_whole(fleet: Fleet, what: str) -> None:
    here, there = fleet.machine("here"), fleet.machine("there")
    here.write("a", noise(4000))
    with here.open() as workspace:
        first = workspace.snapshot().id
        before = set(fleet.files())
        here.write("a", noise(5000))
        second = workspace.snapshot().id
    [hit] = set(fleet.files()) - before
    data = hit.read_bytes()
    hit.unlink()
    if what != "gone":
        hit.write_bytes(data[:2000] if what == "cut" else data[:2000] + b"!" + data[2001:])
    with there.open() as workspace:
        [problem] = workspace.verify(second)
        assert problem
        with pytest.raises((Corrupt, NotFound)):
            workspace.read(second, b"a")
        assert workspace.verify(first) == ()
        assert len(workspace.read(first, b"a")) == 4000


def test_an_index_that_cannot_be_believed_is_replaced_by_the_records(fleet: Fleet) -> None:
    here, there = fleet.machine("here"), fleet.machine("there")
    here.write("a", noise(300_000))
    with here.open() as workspace:
        snapshot = workspace.snapshot().id
    [path] = fleet.files()
    data = path.read_bytes()
    path.write_bytes(data[:-60] + b"\0" * 60)
    with there.open() as workspace:
        assert workspace.read(snapshot, b"a") == (here.root / "a").read_bytes()


def test_a_shared_directory_is_no_part_of_a_workspace(tmp_path: Path) -> None:
    """Or every snapshot would hold the ones before it."""
    work = tmp_path / "work"
    here = Fleet(tmp_path, DirectoryBlobs(work / "blobs")).machine("here")
    here.root = work
    here.write("a", b"one")
    with here.open() as workspace:
        workspace.snapshot()  # makes the directory of blobs
        first = workspace.snapshot()
        assert workspace.snapshot().id == first.id
        assert first.files == 1
    here.root = work / "blobs"
    with pytest.raises(WorkspaceUnusable, match="own store"):
        here.open()


def test_a_quota_is_kept_and_leaves_nothing_behind(fleet: Fleet) -> None:
    here = fleet.machine("here")
    here.write("a", b"small")
    with here.open(quota_bytes=6_000_000) as workspace:
        first = workspace.snapshot().id
        kept = fleet.names()
        for number in range(4):
            here.write(f"big{number}", noise(3_000_000))
        with pytest.raises(OverQuota):
            workspace.snapshot()
        assert fleet.names() == kept, "parts that were sent before the bound was met are still there"
        assert workspace.read(first, b"a") == b"small"
        for number in range(4):
            (here.root / f"big{number}").unlink()
        here.write("b", b"fits")
        assert workspace.read(workspace.snapshot().id, b"b") == b"fits"
