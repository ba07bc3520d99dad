"""Workspaces on real file systems that fold case: exFAT in user space, ext4 and vfat where the kernel has them.

Two names that become one, and paths that such a file system cannot hold, are named before anything is written. A
snapshot holds the names that are listed, and a restore returns to them.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import relight
from relight.cli.render.file_lines import outcome_text
from relight.errors import NamesFold, PathsRefused
from relight.workspaces.workspace import TreeWorkspace
from tests.support.trees import open_tree, two_in_one

IMAGE_BYTES = 16 * 1024 * 1024
FORMATS = {
    "exfat": (["mkfs.exfat"], "exfat-fuse", ""),
    "ext4": (["mkfs.ext4", "-q", "-O", "casefold", "-E", "encoding=utf8"], "ext4", "chattr +F"),
    "vfat": (["mkfs.vfat"], "vfat", ""),
}


def offered() -> list[str]:
    """exFAT, which packages bring, and what this kernel says that it has; each of the others is one skipped test."""
    try:
        kernel = Path("/proc/filesystems").read_text(encoding="ascii").split()
    except OSError:
        kernel = []
    has_casefold = Path("/sys/fs/ext4/features/casefold").exists()
    return ["exfat", *(["ext4"] if has_casefold else []), *(["vfat"] if "vfat" in kernel else [])]


@pytest.fixture(params=offered())
def mounted(request: pytest.FixtureRequest, tmp_path: Path, program: Callable[[str], str]) -> Iterator[Path]:
    """A directory of a real file system that folds; skipped with the kernel's reason where it has none."""
    make, kind, attribute = FORMATS[request.param]
    if os.geteuid() != 0:
        pytest.skip("only root can mount an image")
    if request.param not in offered():
        pytest.skip(f"this kernel has no {request.param} that folds case")
    make = [program(make[0]), *make[1:]]  # a package brings it, so nothing but the kernel may be in the way
    if kind == "exfat-fuse":
        program("mount.exfat-fuse")
    image, point = tmp_path / "image", tmp_path / "mounted"
    with image.open("wb") as file:
        file.truncate(IMAGE_BYTES)
    point.mkdir()
    reason = _mount(make, kind, image, point)
    if reason:
        pytest.skip(f"{request.param} that folds case cannot be mounted here: {reason}")
    try:
        root = point / "tree"
        root.mkdir()
        if attribute:
            subprocess.run([*attribute.split(), str(root)], check=True, capture_output=True)
        yield root
    finally:
        subprocess.run(["umount", str(point)], check=True, capture_output=True)


def _mount(make: list[str], kind: str, image: Path, point: Path) -> str:
    """Make and mount an image; returns why that is impossible, empty if it is mounted."""
    for command in ([*make, str(image)], ["mount", "-t", kind, "-o", "loop", str(image), str(point)]):
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
        if done.returncode:
            return " ".join(done.stderr.split())[:200] or f"{command[0]} ended with {done.returncode}"
    return ""


def names(root: Path) -> list[str]:
    return sorted(str(one.relative_to(root)) for one in root.rglob("*"))


@pytest.mark.guarantee("G16")
@pytest.mark.parametrize("mounted", sorted(FORMATS), indirect=True)
def test_on_a_real_file_system_that_folds_nothing_is_merged(tmp_path: Path, mounted: Path) -> None:
    two_in_one(tmp_path / "tree")
    with open_tree(tmp_path / "tree", tmp_path / "home") as workspace:
        taken = workspace.snapshot().id
    with open_tree(mounted, tmp_path / "home", adopt=True) as workspace:
        with pytest.raises(NamesFold) as refused:
            workspace.plan_restore(taken, choice="force")
        assert refused.value.pairs == ((b"src/Makefile", b"src/makefile"),)
        assert names(mounted) == []


@pytest.mark.guarantee("G16")
def test_a_fork_and_an_imported_session_there_name_both_and_write_nothing(tmp_path: Path, mounted: Path) -> None:
    two_in_one(tmp_path / "tree")
    with relight.open(tmp_path / "relight.db") as rl:
        with rl.session("one", workspace=tmp_path / "tree") as s:
            s.append({"role": "user", "content": "x"})
        rl.history.export("one", tmp_path / "one.relight")
        with pytest.raises(NamesFold):
            rl.history.fork("one", workspace=str(mounted / "fork"))
    with relight.open(tmp_path / "other.db") as rl:
        imported = rl.history.import_(tmp_path / "one.relight", workspace=str(mounted / "imported")).session
        with pytest.raises(NamesFold):
            rl.files.restore(imported)
        with pytest.raises(NamesFold):
            rl.history.fork(imported, workspace=str(mounted / "fork"))
    assert [one for one in names(mounted) if one != "imported"] == []


@pytest.mark.parametrize("watch", [True, False])
def test_a_snapshot_holds_the_names_that_are_listed_and_a_restore_returns_to_them(
    tmp_path: Path, mounted: Path, watch: bool
) -> None:
    """`Foo` is found after it was renamed to `foo`, and a file may be deleted by another spelling of its name."""
    (mounted / "Foo").write_bytes(b"x")
    (mounted / "Dir/Sub").mkdir(parents=True)
    for name in ("Dir/A", "Dir/Sub/b", "kept"):
        (mounted / name).write_bytes(name.encode())
    with open_tree(mounted, tmp_path / "home", watch=watch) as workspace:
        steps: list[tuple[str, list[str]]] = []

        def step() -> None:
            taken = workspace.snapshot().id
            assert listed(workspace, taken) == names(mounted)
            steps.append((taken, names(mounted)))

        step()
        (mounted / "Foo").rename(mounted / "foo")
        step()
        (mounted / "Dir").rename(mounted / "dir")
        step()
        (mounted / "dir/A").rename(mounted / "dir/a")
        (mounted / "dir/New").write_bytes(b"new")
        step()
        (mounted / "FOO").unlink()
        step()
        history = [taken for taken, _ in steps]
        for taken, expected in (steps[0], steps[3], steps[1], steps[4]):
            before = names(mounted)
            last = workspace.snapshot().id
            done = workspace.restore(workspace.plan_restore(taken, last=last, history=history))
            assert (names(mounted), done.changed_meanwhile) == (expected, ())
            done = workspace.restore(workspace.plan_undo())
            assert (names(mounted), done.changed_meanwhile) == (before, ())
            workspace.restore(workspace.plan_restore(taken, last=last, history=history))
            assert names(mounted) == expected
            assert (mounted / "kept").read_bytes() == b"kept"


def listed(workspace: TreeWorkspace, snapshot: str) -> list[str]:
    """The paths that a snapshot holds, from its own records."""
    manifests = workspace._manifests
    found: list[str] = []
    waiting = [(manifests.record(snapshot).tree, b"")]
    for ref, path in waiting:
        for name, entry in manifests.directory(ref, path).items():
            below = path + b"/" + name if path else name
            found.append(os.fsdecode(below))
            if entry.kind == "dir":
                waiting.append((entry.ref, below))
    return sorted(found)


def test_an_edit_that_leaves_size_and_time_is_not_missed_where_times_are_coarse(tmp_path: Path, mounted: Path) -> None:
    (mounted / "file").write_bytes(b"0000")
    with open_tree(mounted, tmp_path / "home") as workspace:
        for number in range(20):
            content = b"%04d" % number
            (mounted / "file").write_bytes(content)
            assert workspace.read(workspace.snapshot().id, b"file") == content


@pytest.mark.parametrize("what", ["link", "colon", "not-utf-8"])
def test_what_the_file_system_cannot_hold_is_named_before_anything_is_written(
    tmp_path: Path, mounted: Path, what: str
) -> None:
    source = tmp_path / "tree"
    source.mkdir()
    (source / "plain").write_bytes(b"p")
    path = {"link": b"link", "colon": b"a:b", "not-utf-8": b"\xff\xfe"}[what]
    full = os.path.join(os.fsencode(source), path)
    if what == "link":
        os.symlink("plain", full)
    else:
        Path(os.fsdecode(full)).write_bytes(b"x")
    if _holds(mounted, path, is_link=what == "link"):
        pytest.skip(f"this file system holds {path!r}")
    with relight.open(tmp_path / "relight.db") as rl:
        with rl.session("one", workspace=source) as s:
            s.append({"role": "user", "content": "x"})
        with pytest.raises(PathsRefused, match="nothing was written") as refused:
            rl.history.fork("one", workspace=str(mounted / "fork"))
        assert [one for one, _ in refused.value.refused] == [path]
        assert not (mounted / "fork").exists()


def _holds(directory: Path, name: bytes, *, is_link: bool) -> bool:
    path = os.path.join(os.fsencode(directory), name)
    try:
        if is_link:
            os.symlink("x", path)
        else:
            Path(os.fsdecode(path)).write_bytes(b"")
        os.unlink(path)
    except OSError:
        return False
    return True


def test_modes_that_the_file_system_does_not_take_are_told_and_no_error(tmp_path: Path, mounted: Path) -> None:
    source = tmp_path / "tree"
    (source / "d").mkdir(parents=True)
    for mode in (0o755, 0o600):
        (source / f"d/{mode:o}").write_bytes(b"x")
        (source / f"d/{mode:o}").chmod(mode)
    with open_tree(source, tmp_path / "home") as workspace:
        taken = workspace.snapshot().id
    with open_tree(mounted, tmp_path / "home", adopt=True) as workspace:
        outcome = workspace.restore(workspace.plan_restore(taken))
        assert names(mounted) == ["d", "d/600", "d/755"]
        modes = {name: (mounted / name).stat().st_mode & 0o7777 for name in ("d", "d/600", "d/755")}
        other = sum(modes[name] != wanted for name, wanted in (("d", 0o755), ("d/600", 0o600), ("d/755", 0o755)))
        assert outcome.other_modes == other
        assert ("another mode" in outcome_text({"main": outcome})) == bool(other)
