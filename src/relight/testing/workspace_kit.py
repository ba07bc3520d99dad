"""Conformance kit of the workspace port: checks that every workspace has to pass.

    class Mine(WorkspaceChecks):
        def open(self, path): return MyWorkspace(path, ...)

    def test_mine(tmp_path):
        for check in Mine(tmp_path).checks():
            check()

`open` opens a workspace on an existing directory, each time as a new process would. Checks use their own files below
the given directory, need no network and no clock, and raise AssertionError if the contract is violated.
"""

from __future__ import annotations

import os
import shutil
import stat
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from relight.errors import Refused, RelightError, RestoreConflict, WorkspaceUnusable
from relight.ports.workspace import Workspace

Picture = dict[bytes, tuple[str, int, bytes]]


class MemorySegments:
    """Segment rows in memory: shared by every workspace of a test."""

    def __init__(self) -> None:
        self._rows: dict[str, set[str]] = {}
        self._lock = threading.Lock()

    def add_segment(self, pool: str, segment: str) -> None:
        with self._lock:
            self._rows.setdefault(pool, set()).add(segment)

    def list_segments(self, pool: str) -> frozenset[str]:
        with self._lock:
            return frozenset(self._rows.get(pool, ()))

    def remove_segments(self, pool: str, segments: Iterable[str]) -> None:
        with self._lock:
            self._rows.get(pool, set()).difference_update(segments)


class FileSegments:
    """Segment rows as empty files: for tests whose processes are killed."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def add_segment(self, pool: str, segment: str) -> None:
        (self._directory / pool).mkdir(parents=True, exist_ok=True)
        (self._directory / pool / segment).touch()

    def list_segments(self, pool: str) -> frozenset[str]:
        home = self._directory / pool
        return frozenset(os.listdir(home)) if home.is_dir() else frozenset()

    def remove_segments(self, pool: str, segments: Iterable[str]) -> None:
        for segment in segments:
            (self._directory / pool / segment).unlink(missing_ok=True)


def picture(root: Path, *, leave_out: Iterable[bytes] = ()) -> Picture:
    """Everything below a directory that a snapshot promises to bring back: kind, mode and content by path."""
    found: Picture = {}
    top = os.fsencode(root)
    out = set(leave_out)
    for at, directories, files in os.walk(top):
        for name in [*directories, *files]:
            full = os.path.join(at, name)
            path = os.path.relpath(full, top)
            if path in out or any(path.startswith(one + b"/") for one in out):
                continue
            mode = os.lstat(full).st_mode
            if stat.S_ISLNK(mode):
                found[path] = ("link", 0, os.readlink(full))
            elif stat.S_ISDIR(mode):
                found[path] = ("dir", stat.S_IMODE(mode), b"")
            elif stat.S_ISREG(mode):
                found[path] = ("file", stat.S_IMODE(mode), Path(os.fsdecode(full)).read_bytes())
            else:
                found[path] = ("special", 0, b"")
    return found


class WorkspaceChecks(ABC):
    """Subclass, say how to open one, run `checks()`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._count = 0

    @abstractmethod
    def open(self, path: Path) -> Workspace:
        """A workspace on this directory."""

    def checks(self) -> Iterator[Callable[[], None]]:
        """All checks, as functions without arguments."""
        for name in sorted(dir(self)):
            if name.startswith("check_"):
                yield getattr(self, name)

    def _tree(self) -> Path:
        """A new directory with one of each kind of entry."""
        self._count += 1
        root = self._directory / f"tree-{self._count}"
        (root / "src" / "deep").mkdir(parents=True)
        (root / "empty").mkdir()
        (root / "src" / "a.py").write_bytes(b"print('a')\r\n" * 50)
        (root / "src" / "deep" / "b.bin").write_bytes(bytes(range(256)) * 8)
        (root / "run.sh").write_bytes(b"#!/bin/sh\n")
        (root / "run.sh").chmod(0o755)
        (root / "private").write_bytes(b"0600")
        (root / "private").chmod(0o600)
        os.symlink("nowhere", root / "dangling")
        return root

    def check_a_wiped_tree_comes_back(self) -> None:
        root = self._tree()
        before = picture(root)
        workspace = self.open(root)
        taken = workspace.snapshot()
        _wipe(root)
        outcome = workspace.restore(workspace.plan_restore(taken.id))
        assert picture(root) == before, "a restored tree differs from the captured one"
        assert outcome.safety, "a restore names its safety snapshot"
        workspace.close()

    def check_nothing_changed_is_the_same_id(self) -> None:
        root = self._tree()
        workspace = self.open(root)
        first, second = workspace.snapshot(), workspace.snapshot()
        assert first.id == second.id, "an unchanged tree got another id"
        assert not second.is_new, "an unchanged tree was called new"
        workspace.close()
        again = self.open(root)
        assert again.snapshot().id == first.id, "another process gave the same tree another id"
        again.close()

    def check_every_change_is_seen(self) -> None:
        root = self._tree()
        workspace = self.open(root)
        first = workspace.snapshot()
        (root / "src" / "a.py").write_bytes(b"print('A')\r\n" * 50)
        (root / "src" / "new").write_bytes(b"")
        (root / "run.sh").chmod(0o700)
        (root / "private").unlink()
        os.rename(root / "src" / "deep", root / "moved")
        second = workspace.snapshot()
        changed = {change.path for change in workspace.diff(first.id, second.id)}
        wanted = {
            b"src/a.py",
            b"src/new",
            b"run.sh",
            b"private",
            b"src/deep",
            b"src/deep/b.bin",
            b"moved",
            b"moved/b.bin",
        }
        assert changed == wanted, f"seen {sorted(changed)}"
        workspace.close()

    def check_undo_is_the_state_before(self) -> None:
        root = self._tree()
        workspace = self.open(root)
        first = workspace.snapshot()
        shutil.rmtree(root / "src")
        (root / "src").write_bytes(b"a file where a directory was")
        (root / "later").mkdir()
        (root / "later" / "x").write_bytes(b"x")
        second = workspace.snapshot()
        before = picture(root)
        workspace.restore(workspace.plan_restore(first.id, last=second.id, history=[first.id, second.id]))
        assert picture(root) != before
        workspace.restore(workspace.plan_undo())
        assert picture(root) == before, "undo did not bring back the state before the restore"
        workspace.close()

    def check_what_no_snapshot_holds_survives(self) -> None:
        root = self._tree()
        workspace = self.open(root)
        first = workspace.snapshot()
        (root / "mine.txt").write_bytes(b"never in a snapshot of the session")
        for choice in ("stop", "theirs", "ours", "force"):
            (root / "src" / "a.py").unlink(missing_ok=True)
            workspace.restore(workspace.plan_restore(first.id, history=[first.id], choice=choice))
            assert (root / "mine.txt").read_bytes() == b"never in a snapshot of the session", choice
        workspace.close()

    def check_a_change_by_others_is_a_conflict(self) -> None:
        root = self._tree()
        workspace = self.open(root)
        first = workspace.snapshot()
        (root / "src" / "a.py").write_bytes(b"the user's")
        plan = workspace.plan_restore(first.id, history=[first.id])
        assert [one.path for one in plan.decision.conflicts] == [b"src/a.py"]
        _refused(RestoreConflict, lambda: workspace.restore(plan))
        assert (root / "src" / "a.py").read_bytes() == b"the user's", "a refused restore touched a file"
        workspace.restore(workspace.plan_restore(first.id, history=[first.id], choice="theirs"))
        assert (root / "src" / "a.py").read_bytes() == b"the user's"
        workspace.restore(workspace.plan_restore(first.id, history=[first.id], choice="ours"))
        assert (root / "src" / "a.py").read_bytes() == b"print('a')\r\n" * 50
        workspace.close()

    def check_what_is_left_out_is_told_and_left_alone(self) -> None:
        root = self._tree()
        os.mkfifo(root / "pipe")
        workspace = self.open(root)
        taken = workspace.snapshot()
        assert b"pipe" in {one.path for one in workspace.skipped(taken.id)}, "a fifo was left out in silence"
        (root / "src" / "a.py").unlink()
        workspace.restore(workspace.plan_restore(taken.id))
        assert stat.S_ISFIFO((root / "pipe").stat().st_mode)
        workspace.close()

    def check_a_replaced_directory_is_refused(self) -> None:
        root = self._tree()
        workspace = self.open(root)
        taken = workspace.snapshot()
        plan = workspace.plan_restore(taken.id)
        os.rename(root, root.with_name(root.name + "-old"))
        root.mkdir()
        _refused(WorkspaceUnusable, workspace.check_usable)
        _refused(RelightError, lambda: workspace.restore(plan))
        _refused(RelightError, workspace.snapshot)
        assert list(root.iterdir()) == []
        workspace.close()

    def check_a_plan_that_no_longer_fits_is_refused(self) -> None:
        root = self._tree()
        workspace = self.open(root)
        taken = workspace.snapshot()
        (root / "src" / "a.py").unlink()
        plan = workspace.plan_restore(taken.id)
        (root / "src" / "a.py").write_bytes(b"written after the plan")
        workspace.snapshot()
        _refused(Refused, lambda: workspace.restore(plan))
        assert (root / "src" / "a.py").read_bytes() == b"written after the plan"
        workspace.close()

    def check_content_can_be_read_and_is_whole(self) -> None:
        root = self._tree()
        workspace = self.open(root)
        taken = workspace.snapshot()
        assert workspace.read(taken.id, b"private") == b"0600"
        assert workspace.read(taken.id, b"dangling") == b"nowhere"
        assert workspace.verify(taken.id) == ()
        _refused(RelightError, lambda: workspace.read(taken.id, b"no such file"))
        _refused(RelightError, lambda: workspace.diff("sha256:" + "00" * 32))
        workspace.close()

    def check_sweep_keeps_what_is_live(self) -> None:
        root = self._tree()
        workspace = self.open(root)
        first = workspace.snapshot()
        (root / "src" / "a.py").write_bytes(os.urandom(4096))
        second = workspace.snapshot()
        workspace.sweep(lambda: [second.id])
        assert workspace.verify(second.id) == (), "a sweep removed what a live snapshot needs"
        assert workspace.snapshot().id == second.id
        workspace.sweep(lambda: [second.id], dry_run=True)
        assert first.id != second.id
        workspace.close()


def _wipe(root: Path) -> None:
    for child in root.iterdir():
        if child.is_dir() and not child.is_symlink():
            shutil.rmtree(child)
        else:
            child.unlink()


def _refused(kind: type[RelightError], call: Callable[[], object]) -> None:
    try:
        call()
    except kind:
        return
    raise AssertionError(f"{kind.__name__} was expected, and nothing was refused")
