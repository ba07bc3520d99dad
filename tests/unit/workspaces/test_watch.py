"""The watcher is a hint: whatever it misses, the answer is that of a full re-hash."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from relight.workspaces.changes import native, scan, watch
from relight.workspaces.restore import openat
from tests.support.figures import Figure
from tests.support.trees import Gardener, open_tree
from tools.build_scan import BUILT, build


@pytest.mark.guarantee("G17")
@pytest.mark.parametrize("watching", [True, False], ids=["watch", "walk"])
def test_random_edits_against_a_full_rehash(
    tmp_path: Path, figure: Figure, sample: Callable[..., int], watching: bool
) -> None:
    root = tmp_path / "tree"
    root.mkdir()
    gardener = Gardener(root, seed=42)
    gardener.grow(60)
    rounds = sample(75, proof=10_000, teeth=60)
    wrong = 0
    with open_tree(root, tmp_path / "home", watch=watching, audit_seconds=1e9) as workspace:
        for _ in range(rounds):
            gardener.grow(gardener.chance.randrange(1, 6))
            wrong += len(workspace.audit())
        tiers = workspace.snapshot().tier
        has_watcher = watching and workspace.watcher == "on"
    assert wrong == 0
    assert tiers == ("watch" if has_watcher else "walk")
    figure("G17", f"{rounds} rounds of random edits ({'watch' if watching else 'walk'}), {wrong} wrong paths")


def test_an_overflow_falls_back_to_the_walk_and_recovers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "tree"
    root.mkdir()
    with open_tree(root, tmp_path / "home", watch=True) as workspace:
        workspace.snapshot()
        most = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
        names = [os.fsencode(root / f"f{number}") for number in range(2)]
        for name in names:
            Path(os.fsdecode(name)).write_bytes(b"before")
        for number in range(most + 100):  # two files in turn: equal events in a row would be told once
            os.chmod(names[number % 2], 0o600 + number % 8)
        assert workspace.snapshot().tier == "walk"
        assert workspace.audit() == ()
        (root / "f1").write_bytes(b"after")
        after = workspace.snapshot()
        assert after.tier == "watch" and workspace.read(after.id, b"f1") == b"after"


def test_no_watches_left_means_the_walk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        def __init__(self) -> None:
            self.inotify_init1 = watch._libc.inotify_init1

        def inotify_add_watch(self, *_: object) -> int:
            ctypes.set_errno(errno.ENOSPC)
            return -1

    root = tmp_path / "tree"
    (root / "d").mkdir(parents=True)
    monkeypatch.setattr(watch, "_libc", Full())
    with open_tree(root, tmp_path / "home", watch=True) as workspace:
        workspace.snapshot()
        assert workspace.watcher.startswith("off: a watch could not be set")
        (root / "d/f").write_bytes(b"x")
        taken = workspace.snapshot()
        assert taken.tier == "walk" and workspace.read(taken.id, b"d/f") == b"x"


def test_the_audit_notices_a_watcher_that_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "tree"
    (root / "d").mkdir(parents=True)
    with open_tree(root, tmp_path / "home", watch=True, audit_seconds=0.0) as workspace:
        workspace.snapshot()
        monkeypatch.setattr(watch.Watcher, "drain", lambda self: watch.Hints())
        (root / "d/f").write_bytes(b"x")
        taken = workspace.snapshot()
        assert workspace.read(taken.id, b"d/f") == b"x"
        assert workspace.watcher == "off: it missed 1 directories"


def test_the_compiled_scanner_and_python_say_the_same(tmp_path: Path, program: Callable[[str], str]) -> None:
    program("gcc")
    assert BUILT == native.LIBRARY and build(tmp_path / "_scan.so.1") == ""
    library = native._load.__wrapped__(tmp_path / "_scan.so.1")
    assert library is not None
    root = tmp_path / "tree"
    root.mkdir()
    gardener = Gardener(root, seed=9)
    gardener.grow(300)
    paths = [b""]
    for at, directories, _ in os.walk(os.fsencode(root)):
        paths += [os.path.relpath(os.path.join(at, name), os.fsencode(root)) for name in directories]
    paths.append(b"not/there")
    fd = os.open(root, os.O_RDONLY)
    try:
        nothing = [b""] * len(paths)
        compiled = scan._scan_native(library, fd, paths, nothing)
        assert compiled == scan._scan_python(fd, paths, nothing)
        blocks = [one.block for one in compiled]
        failing = [one.path for one in compiled if one.error]
        assert [one.path for one in scan._scan_native(library, fd, paths, blocks)] == failing
        assert [one.path for one in scan._scan_python(fd, paths, blocks)] == failing
        for one in compiled:
            assert not one.block or scan.build(scan.parse(one.block)) == one.block
    finally:
        os.close(fd)


def test_without_its_library_or_openat2_directories_are_scanned_in_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "torn.so").write_bytes(b"no library")
    assert native._load.__wrapped__(tmp_path / "none.so") is native._load.__wrapped__(tmp_path / "torn.so") is None
    monkeypatch.setattr(native, "_load", lambda _: pytest.fail("a library was loaded"))
    monkeypatch.setattr(openat, "calls", openat.Calls(None, "POSIX"))
    assert native.load() is None
    monkeypatch.undo()
    monkeypatch.setenv("RELIGHT_NATIVE", "0")
    assert native.load() is None


@pytest.mark.parametrize(("platform", "path"), [("darwin", os.environ["PATH"]), ("linux", "")])
def test_without_a_compiler_or_linux_a_wheel_is_pure_and_holds_no_former_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, platform: str, path: str
) -> None:
    former = tmp_path / "_scan.so.1"
    former.write_bytes(b"of another machine")
    monkeypatch.setenv("PATH", path)
    assert build(former, platform=platform) != "" and not former.exists()
