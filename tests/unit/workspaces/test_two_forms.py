"""One object may be stored twice, whole and as a difference: what is a difference from it is still read, and swept."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from relight.testing.workspace_kit import MemorySegments
from relight.workspaces.manifest import Manifests
from relight.workspaces.pool import compress, objects
from relight.workspaces.pool.pool import Pool
from relight.workspaces.pool.sweep import Mode, sweep
from tests.support.figures import Figure
from tests.support.trees import open_tree


def put(pool: Pool, data: bytes, former: bytes | None = None) -> bytes:
    ref = objects.digest(data)
    pool.put(ref, data, former)
    return ref


def lay_out(directory: Path, changed: str | None) -> None:
    """Twenty files that are the same each time, but for one."""
    directory.mkdir(exist_ok=True)
    for number in range(20):
        file = directory / f"f{number:02}"
        file.write_bytes(b"changed" if file.name == changed else b"as ever")
        os.utime(file, ns=(1, 1))


@pytest.mark.guarantee("G2")
@pytest.mark.parametrize("again", [False, True], ids=["one-process", "several"])
def test_a_directory_that_is_again_what_it_was_leaves_every_snapshot_whole(
    tmp_path: Path, figure: Figure, again: bool
) -> None:
    root, home, states = tmp_path / "tree", tmp_path / "home", [None, "f00", "gone", "f19", None, "f10", None]
    root.mkdir()
    taken: list[str] = []
    workspace = open_tree(root, home)
    for state in states:
        if again:
            workspace.close()
            workspace = open_tree(root, home)
        if state == "gone":
            shutil.rmtree(root / "d")
        else:
            lay_out(root / "d", state)
        taken.append(workspace.snapshot().id)
    workspace.close()
    with open_tree(root, home) as fresh:
        assert [problem for one in taken for problem in fresh.verify(one)] == []
    assert taken[0] == taken[4] == taken[6]
    figure("G2", f"{len(taken)} snapshots of files that go back and forth, all whole")


@pytest.mark.guarantee("G18")
@pytest.mark.parametrize("thorough", [False, True])
@pytest.mark.parametrize("nth", range(6))  # names are drawn by chance, and so is the order in which segments are met
def test_an_object_that_two_processes_stored_differently_carries_its_differences(
    tmp_path: Path, thorough: bool, nth: int
) -> None:
    rows = MemorySegments()
    one, other = Pool(tmp_path, "k", rows), Pool(tmp_path, "k", rows)
    base = os.urandom(5000)
    near, far = base[:-5] + b"near!", b"far!!" + base[5:]
    assert other.find(objects.digest(near)) is None, "it has looked, and does not look again"
    root = put(other, base)
    other.sync()
    one.refresh()
    whole = put(one, near)
    put(one, near[:-8] + b"a change", whole)
    one.sync()
    assert put(other, near, root) == whole and other.find(whole).has_base  # type: ignore[union-attr]
    last = put(other, far, root)
    other.sync()
    one.close()
    other.close()
    kept = [objects.digest(one) for one in (near, near[:-8] + b"a change", far)]
    for _ in range(2):
        pool = Pool(tmp_path, "k", rows)
        assert [objects.digest(pool.read(ref)) for ref in kept] == kept
        put(pool, os.urandom(20_000))
        pool.sync()
        sweep(pool, _These(pool, kept), lambda: ["all"], dry_run=False, mode=Mode(thorough=thorough))
        pool.close()
    pool = Pool(tmp_path, "k", rows)
    assert [objects.digest(pool.read(ref)) for ref in kept] == kept and last in kept
    pool.close()


class _These(Manifests):
    """A snapshot that needs exactly these objects."""

    def __init__(self, pool: Pool, refs: list[bytes]) -> None:
        super().__init__(pool)
        self._refs = refs

    def reachable(self, snapshot: str, seen: set[bytes]) -> Iterator[bytes]:
        seen.update(self._refs)
        yield from self._refs


def test_what_is_taken_back_leaves_the_earlier_record(tmp_path: Path) -> None:
    rows = MemorySegments()
    pool = Pool(tmp_path, "k", rows)
    data = os.urandom(3000)
    ref = put(pool, data)
    pool.sync()
    record = pool.find(ref)
    pool.append(compress.pack(ref, data))
    pool.rollback()
    assert pool.find(ref) == record and pool.read(ref) == data
    pool.close()
