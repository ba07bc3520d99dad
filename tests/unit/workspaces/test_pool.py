"""Content is there when it is named: torn tails, full disks, several processes, sweeps that race commits, canaries."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from relight.errors import Corrupt, StoreFull
from relight.ports import faults
from relight.testing.workspace_kit import MemorySegments
from relight.workspaces.changes.ignore import Level, lines
from relight.workspaces.pool import objects
from relight.workspaces.pool.pool import Pool
from tests.support import mounting
from tests.support.trees import open_tree


def put(pool: Pool, data: bytes, base: bytes | None = None) -> bytes:
    ref = objects.digest(data)
    pool.put(ref, data, base)
    return ref


def test_two_processes_share_a_pool(tmp_path: Path) -> None:
    rows = MemorySegments()
    one, other = Pool(tmp_path, "k", rows), Pool(tmp_path, "k", rows)
    ref = put(one, b"content" * 100)
    one.sync()
    assert other.read(ref) == b"content" * 100
    mine = put(other, b"other" * 100)
    other.sync()
    assert one.read(mine) == b"other" * 100
    assert len(rows.list_segments("k")) == 2, "each process writes a segment of its own"
    one.close()
    other.close()
    third = Pool(tmp_path, "k", rows)
    put(third, b"third" * 100)
    third.sync()
    assert len(rows.list_segments("k")) == 2, "a segment whose writer is gone is gone on with"
    third.close()


def test_a_torn_tail_is_never_believed(tmp_path: Path) -> None:
    rows = MemorySegments()
    pool = Pool(tmp_path, "k", rows)
    ref = put(pool, os.urandom(500))
    pool.sync()
    lost = put(pool, os.urandom(500))
    pool.sync()
    pool.close()
    [file] = tmp_path.rglob("*.seg")
    [index] = tmp_path.rglob("*.idx")
    whole = file.read_bytes()
    for cut in range(len(whole) - 540, len(whole), 37):
        index.unlink(missing_ok=True)
        file.write_bytes(whole[:cut] + bytes(len(whole) - cut))
        again = Pool(tmp_path, "k", rows)
        assert again.has(ref) and not again.has(lost)
        again.close()


def test_differences_are_small_and_one_level_deep(tmp_path: Path) -> None:
    pool = Pool(tmp_path, "k", MemorySegments())
    text, former, refs = os.urandom(9000), None, []
    for number in range(20):
        data = text + b"line %d\n" % number
        former = put(pool, data, former)
        refs.append((former, data))
    pool.sync()
    assert pool.stored_bytes < 9000 + 20 * 200
    for ref, data in refs:
        assert pool.read(ref) == data
        location = pool.find(ref)
        assert location is not None
        base = pool.find(location.base)
        assert base is None or base.form != 2
    pool.close()


@pytest.mark.guarantee("G3")
@pytest.mark.parametrize("call", ["pwrite", "fdatasync" if hasattr(os, "fdatasync") else "fsync"])
def test_an_error_while_writing_is_told_and_the_next_snapshot_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    root = tmp_path / "tree"
    root.mkdir()
    (root / "a").write_bytes(b"one")
    with open_tree(root, tmp_path / "home") as workspace:
        first = workspace.snapshot()
        (root / "a").write_bytes(b"two")

        def fail(*_: object) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(f"relight.workspaces.pool.writer.os.{call}", fail)
        with pytest.raises(StoreFull):
            workspace.snapshot()
        monkeypatch.undo()
        second = workspace.snapshot()
        assert workspace.read(second.id, b"a") == b"two"
        assert workspace.verify(first.id) == () and workspace.verify(second.id) == ()


@pytest.mark.guarantee("G3")
def test_a_full_disk_names_nothing(tmp_path: Path, program: Callable[[str], str]) -> None:
    root = tmp_path / "tree"
    root.mkdir()
    with mounting.small_disk(tmp_path / "small", "400k") as small:
        (root / "a").write_bytes(b"small")
        with open_tree(root, small, floor_bytes=None) as workspace:
            first = workspace.snapshot()
            (root / "b").write_bytes(os.urandom(1 << 20))
            with pytest.raises(StoreFull):
                workspace.snapshot()
            assert workspace.verify(first.id) == ()
            (root / "b").unlink()
            assert workspace.snapshot().id == first.id


@pytest.mark.parametrize("name", ["snapshot.read", "snapshot.directories_put", "snapshot.segment_written"])
def test_a_snapshot_that_failed_half_way_is_no_ground_for_the_next(tmp_path: Path, name: str) -> None:
    root = tmp_path / "tree"
    (root / "d").mkdir(parents=True)
    with open_tree(root, tmp_path / "home") as workspace:
        workspace.snapshot()
        (root / "d/f").write_bytes(b"x" * 5000)

        def fail(_: str) -> None:
            raise faults.InjectedFault(name)

        faults.arm(name, fail)
        try:
            with pytest.raises(faults.InjectedFault):
                workspace.snapshot()
        finally:
            faults.disarm()
        second = workspace.snapshot()
        assert workspace.verify(second.id) == () and workspace.read(second.id, b"d/f") == b"x" * 5000
        assert workspace.audit() == ()


@pytest.mark.guarantee("G18")
def test_a_writer_that_slept_through_a_sweep_is_told_and_recovers(tmp_path: Path) -> None:
    root = tmp_path / "tree"
    root.mkdir()
    (root / "a").write_bytes(os.urandom(3000))
    with open_tree(root, tmp_path / "home") as writer, open_tree(root, tmp_path / "home") as sweeper:
        asleep = writer.snapshot()  # taken, and not committed yet
        writer.pool.release()
        sweeper.sweep(list)  # nothing is committed, so nothing is needed
        assert not set(asleep.segments) <= sweeper.pool.rows.list_segments("pool"), "the commit would not have noticed"
        writer.recover()
        again = writer.snapshot()
        assert set(again.segments) <= writer.pool.rows.list_segments("pool")
        assert writer.verify(again.id) == ()


@pytest.mark.guarantee("G18")
def test_a_commit_between_mark_and_sweep_is_kept(tmp_path: Path) -> None:
    root = tmp_path / "tree"
    root.mkdir()
    (root / "a").write_bytes(os.urandom(3000))
    with open_tree(root, tmp_path / "home") as workspace:
        taken = workspace.snapshot()
        committed: list[list[str]] = [[], [taken.id]]  # committed after the first look, before the rows went
        workspace.sweep(lambda: committed.pop(0))
        assert workspace.verify(taken.id) == ()


@pytest.mark.guarantee("G18")
def test_after_a_thorough_sweep_no_byte_of_what_was_removed_is_left(tmp_path: Path) -> None:
    root = tmp_path / "tree"
    root.mkdir()
    (root / "a").write_bytes(b"stays")
    (root / "canary").write_bytes(b"CANARY-51c9")
    with open_tree(root, tmp_path / "home") as workspace:
        workspace.snapshot()
        (root / "canary").unlink()
        kept = workspace.snapshot()
        forecast = workspace.sweep(lambda: [kept.id], dry_run=True, thorough=True)
        assert forecast.bytes_removed > 0
        workspace.sweep(lambda: [kept.id], thorough=True)
        assert workspace.verify(kept.id) == ()
        left = b"".join(path.read_bytes() for path in (tmp_path / "home").rglob("*") if path.is_file())
        assert b"CANARY-51c9" not in left


def test_a_missing_object_is_named(tmp_path: Path) -> None:
    pool = Pool(tmp_path, "k", MemorySegments())
    with pytest.raises(Corrupt):
        pool.read(bytes(32))
    pool.close()


IGNORE = """
# comment
*.log
!keep.log
/build
docs/*.txt
**/cache
a/**/z
node_modules/
\\#odd
trail\\ end
[ab]x
!/build/never
foo/**
q?
"""
PATHS = [
    "x.log",
    "keep.log",
    "build",
    "sub/build",
    "docs/a.txt",
    "docs/sub/a.txt",
    "cache",
    "p/cache",
    "p/q/cache",
    "a/z",
    "a/b/z",
    "a/b/c/z",
    "a/zz",
    "node_modules/x.js",
    "p/node_modules/y.js",
    "#odd",
    "trail end",
    "ax",
    "bx",
    "cx",
    "foo/bar/baz",
    "foo2",
    "qa",
    "q/a",
    "qab",
    "sub/x.log",
    "sub/keep.log",
]


def test_ignore_rules_agree_with_git(tmp_path: Path, program: Callable[[str], str]) -> None:
    subprocess.run([program("git"), "init", "-q", str(tmp_path)], check=True, capture_output=True)
    (tmp_path / ".gitignore").write_text(IGNORE)
    level = Level(b"", lines(IGNORE.encode()))
    for path in PATHS:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        if not (tmp_path / path).exists():
            (tmp_path / path).write_text("")
    for path in PATHS:
        said = subprocess.run(["git", "-C", str(tmp_path), "check-ignore", "-q", path], check=False).returncode == 0
        assert _ignored(level, path.encode(), (tmp_path / path).is_dir()) == said, path


def _ignored(level: Level, path: bytes, is_dir: bool) -> bool:
    parts = path.split(b"/")
    for depth in range(1, len(parts) + 1):
        at = b"/".join(parts[:depth])
        if level.verdict(at, parts[depth - 1], is_dir or depth < len(parts)):
            return True
    return False
