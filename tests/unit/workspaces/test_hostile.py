"""Restore never leaves the workspace: hostile manifests, a swapper of directories, bombs and flipped bits."""

from __future__ import annotations

import errno
import os
import random
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from relight.errors import Corrupt, RelightError
from relight.journal import compression
from relight.values.snapshot import Entry, SnapshotRecord
from relight.workspaces.pool import compress, objects, segment
from relight.workspaces.pool.pool import Pool
from relight.workspaces.restore import openat
from relight.workspaces.workspace import TreeWorkspace
from tests.support.figures import Figure
from tests.support.trees import open_tree

NAMES = [
    b"..",
    b".",
    b"",
    b"a/b",
    b"/etc",
    b"../x",
    b"a\0b",
    b"x" * 256,
    b".git",
    b".GIT",
    b".git ",
    b".g\xe2\x80\x8cit",
    b"git~1",
]


def planted(pool: Pool, entries: list[Entry]) -> str:
    """A snapshot with exactly this root directory, whatever it says."""
    page = b"P" + msgspec.msgpack.encode(entries)
    tree = objects.digest(page)
    pool.put(tree, page)
    record = objects.encode_snapshot(SnapshotRecord(tree=tree, mode=0o755, files=1, size_bytes=1, skipped=0))
    ref = objects.digest(record)
    pool.put(ref, record)
    pool.sync()
    return objects.snapshot_id(ref)


def refused(workspace: TreeWorkspace, target: str) -> bool:
    try:
        workspace.restore(workspace.plan_restore(target, choice="force", exact=True))
    except RelightError:
        return True
    return False


@pytest.mark.guarantee("G15")
def test_hostile_names_are_refused_before_anything_is_touched(tmp_path: Path, system: str) -> None:
    root = tmp_path / "tree"
    (root / ".git").mkdir(parents=True)
    (root / ".git/config").write_text("ours")
    with open_tree(root, tmp_path / "home") as workspace:
        content = objects.digest(b"evil")
        workspace.pool.put(content, b"evil")
        for name in NAMES:
            for kind, ref in (("file", content), ("link", b"/etc/passwd"), ("dir", content)):
                target = planted(workspace.pool, [Entry(name=name, kind=kind, mode=0o644, size_bytes=4, ref=ref)])  # type: ignore[arg-type]
                assert refused(workspace, target), name
        double = [Entry(name=b"a", kind="link", ref=b"/tmp"), Entry(name=b"a", kind="file", mode=0o644, ref=content)]
        assert refused(workspace, planted(workspace.pool, double))
        assert refused(workspace, planted(workspace.pool, [Entry(name=b"a", kind="file", mode=0o100644, ref=content)]))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home", "tree"]
    assert (root / ".git/config").read_text() == "ours"


@pytest.mark.guarantee("G15")
def test_fuzzed_manifests_stay_inside(tmp_path: Path, system: str, figure: Figure, sample: Callable[..., int]) -> None:
    root, outside = tmp_path / "tree", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    chance = random.Random(5)
    rounds = sample(75, proof=10_000, teeth=150)
    pieces = [b"a", b"b", *NAMES, b"../outside/x"]
    with open_tree(root, tmp_path / "home") as workspace:
        content = objects.digest(b"evil")
        workspace.pool.put(content, b"evil")
        for _ in range(rounds):
            entries = [
                Entry(
                    name=chance.choice(pieces),
                    kind=chance.choice(["file", "link", "dir", "skip", "big"]),
                    mode=chance.choice([0o644, 0o7777, -1, 1 << 20]),
                    size_bytes=chance.choice([0, -1, 1 << 62]),
                    ref=chance.choice([content, b"", b"/etc", b"../outside", os.fsencode(outside)]),
                )
                for _ in range(chance.randrange(1, 4))
            ]
            if chance.random() < 0.7:
                entries.sort(key=lambda entry: entry.name)
            refused(workspace, planted(workspace.pool, entries))
    assert list(outside.iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home", "outside", "tree"]
    figure("G15", f"{rounds} fuzzed manifests ({system}), nothing outside the workspace touched")


@pytest.mark.guarantee("G15")
def test_a_swapper_cannot_lead_a_restore_out(
    tmp_path: Path, system: str, figure: Figure, sample: Callable[..., int]
) -> None:
    root, outside = tmp_path / "tree", tmp_path / "outside"
    (root / "d").mkdir(parents=True)
    outside.mkdir()
    for number in range(20):
        (root / f"d/f{number}").write_bytes(b"inside")
        (outside / f"f{number}").write_bytes(b"outside")
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            try:
                os.rename(root / "d", root / "d-away")
                os.symlink(outside, root / "d")
                os.unlink(root / "d")
                os.rename(root / "d-away", root / "d")
            except OSError:
                continue

    rounds = sample(8, proof=500)
    with open_tree(root, tmp_path / "home") as workspace:
        target = workspace.snapshot().id
        thread = threading.Thread(target=swap)
        thread.start()
        try:
            for turn in range(rounds):
                for number in range(20):
                    try:
                        (root / f"d/f{number}").write_bytes(b"%d" % turn) if not (root / "d").is_symlink() else None
                    except OSError:
                        continue
                for number in range(20):  # the swapper may have led this test's own write out
                    (outside / f"f{number}").write_bytes(b"outside")
                refused(workspace, target)
                assert {path.read_bytes() for path in outside.iterdir()} == {b"outside"}
        finally:
            stop.set()
            thread.join(30)
    assert len(list(outside.iterdir())) == 20
    figure("G15", f"{rounds} restores under a swapper ({system}), nothing outside touched")


@pytest.mark.guarantee("G15")
def test_nothing_is_opened_beneath_the_root_through_a_link_or_a_way_up(tmp_path: Path, system: str) -> None:
    """With openat2 and without: the same refusals, with the same error."""
    (tmp_path / "root/a").mkdir(parents=True)
    (tmp_path / "out").mkdir()
    for directory in ("out", "root/a"):
        (tmp_path / directory / "file").write_bytes(b"x")
    os.symlink("../../out", tmp_path / "root/a/link")
    os.symlink("file", tmp_path / "root/a/near")
    os.symlink("a", tmp_path / "root/inside")
    os.mkfifo(tmp_path / "root/a/fifo")
    fd = os.open(tmp_path / "root", os.O_RDONLY)
    refusals = {
        b"a/link/file": errno.ELOOP,
        b"inside/file": errno.ELOOP,
        b"../out": errno.EXDEV,
        b"../out/file": errno.EXDEV,
        b"a/../../out": errno.EXDEV,
        b"/etc": errno.EXDEV,
        b"/etc/passwd": errno.EXDEV,
        b"a/file/deeper": errno.ENOTDIR,
        b"none/deeper": errno.ENOENT,
    }
    try:
        os.close(openat.open_directory(fd, b""))
        os.close(openat.open_directory(fd, b"a"))
        for name in (b"a/file", b"a/fifo"):
            os.close(openat.open_file(fd, name))
        for way in (openat.open_directory, openat.open_file):
            for path, code in refusals.items():
                with pytest.raises(OSError) as refused:
                    os.close(way(fd, path))
                assert refused.value.errno == code, (path, way)
        with pytest.raises(OSError) as refused:
            os.close(openat.open_file(fd, b"a/near"))
        assert refused.value.errno == errno.ELOOP
        for path in (b"a/file", b"a/link", b"inside"):
            with pytest.raises(OSError) as refused:
                os.close(openat.open_directory(fd, path))
            assert refused.value.errno == errno.ENOTDIR
    finally:
        os.close(fd)


@pytest.mark.guarantee("G27")
def test_a_bomb_stays_small() -> None:
    bomb = compression.compress(bytes(64 * 1024 * 1024))
    assert len(bomb) < 10_000
    with pytest.raises(Corrupt):
        compress.unpack(segment.ZSTD, bomb, 1000)
    with pytest.raises(Corrupt):
        compress.unpack(segment.ZSTD, bomb, 64 * 1024 * 1024)


@pytest.mark.guarantee("G5")
def test_a_flipped_bit_in_stored_content_is_seen(tmp_path: Path, figure: Figure, sample: Callable[..., int]) -> None:
    root = tmp_path / "tree"
    root.mkdir()
    (root / "a").write_bytes(b"hello " * 100)
    (root / "b").write_bytes(os.urandom(300))
    with open_tree(root, tmp_path / "home") as workspace:
        taken = workspace.snapshot().id
    [file] = (tmp_path / "home").rglob("*.seg")
    whole, chance, seen = file.read_bytes(), random.Random(3), 0
    rounds = sample(30, proof=5000, teeth=60)
    for _ in range(rounds):
        at = chance.randrange(len(segment.MAGIC), len(whole))
        broken = bytearray(whole)
        broken[at] ^= 1 << chance.randrange(8)
        shutil.rmtree(file.parent)
        file.parent.mkdir()
        file.write_bytes(broken)
        with open_tree(root, tmp_path / "home") as workspace:
            problems = workspace.verify(taken)
            seen += bool(problems)
            assert problems or workspace.read(taken, b"a") == b"hello " * 100
            assert workspace.verify(workspace.snapshot().id) == (), "a new snapshot was built on damaged content"
    assert seen == rounds
    figure("G5", f"{rounds} bits flipped in a segment, {seen} seen, none believed")
