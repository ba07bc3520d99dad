"""File systems that fold case or normalise Unicode: two names that become one are named before anything is written."""

from __future__ import annotations

import os
import unicodedata
from pathlib import Path

import pytest

import relight
from relight.errors import NamesFold
from relight.journal.files.name_folding import fold_key, pairs_alike
from relight.testing.workspace_kit import FileSegments, picture
from relight.values.snapshot import Action, Entry
from relight.workspaces import home
from relight.workspaces.policy import TreePolicy
from relight.workspaces.restore import executor
from relight.workspaces.restore.name_folding import is_one_name, is_one_path, not_held
from relight.workspaces.restore.swap import Swapper
from relight.workspaces.workspace import TreeWorkspace
from tests.support.trees import open_tree, two_in_one

NOBODY = 65534


def folds(one: bytes, other: bytes) -> bool:
    """A file system as macOS has it."""
    return one.decode().casefold() == other.decode().casefold() or is_normalised_alike(one, other)


def is_normalised_alike(one: bytes, other: bytes) -> bool:
    return unicodedata.normalize("NFD", one.decode()) == unicodedata.normalize("NFD", other.decode())


class FoldingWorkspace(TreeWorkspace):
    """A workspace on a file system that folds."""

    def is_one_name(self, directory: bytes, one: bytes, other: bytes) -> bool:
        return folds(one, other)


def folding_tree(root: Path, home: Path) -> TreeWorkspace:
    return FoldingWorkspace(
        root, blobs=home / "blobs", rows=FileSegments(home / "rows"), policy=TreePolicy(), key="pool", adopt=True
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b"README", b"readme"),
        ("É.txt".encode(), "e\u0301.TXT".encode()),
        ("straße".encode(), b"STRASSE"),
        (b"name.", b"name"),
        (b"d/na ", b"D/na"),
        ("a\u200db".encode(), b"ab"),
    ],
)
def test_every_pair_that_some_file_system_folds_has_one_key(one: bytes, other: bytes) -> None:
    assert fold_key(one) == fold_key(other)
    assert pairs_alike([one], [other]) == [(other, one)]
    assert len(pairs_alike([one, other], [])) == 1


def test_other_names_have_keys_of_their_own() -> None:
    names = [b"a", b"b", b"a.", b"a b", b".a", b"..a", b"\xff", b"\xfe", "é".encode(), b"e", "ж".encode()]
    assert pairs_alike([name for name in names if name != b"a."], []) == []
    assert pairs_alike([b"a"], [b"a"]) == []


@pytest.mark.guarantee("G16")
def test_names_that_would_become_one_are_named_before_anything_is_written(tmp_path: Path) -> None:
    two_in_one(tmp_path / "tree")
    with open_tree(tmp_path / "tree", tmp_path / "home") as workspace:
        taken = workspace.snapshot().id
        assert workspace.plan_restore(taken).is_empty, "this file system has both"
    (tmp_path / "copy").mkdir()
    with folding_tree(tmp_path / "copy", tmp_path / "home") as workspace:
        with pytest.raises(NamesFold, match="nothing was written") as refused:
            workspace.plan_restore(taken, choice="force")
        assert refused.value.pairs == ((b"src/Makefile", b"src/makefile"),)
        assert "src/Makefile and src/makefile" in refused.value.evidence
        assert list((tmp_path / "copy").iterdir()) == []
        workspace.restore(workspace.plan_restore(taken, paths=[b"src/makefile", b"other"]))
    assert (tmp_path / "copy/src/makefile").read_bytes() == b"other"


def test_a_name_that_stays_is_not_taken_by_another_spelling(tmp_path: Path) -> None:
    root = tmp_path / "tree"
    root.mkdir()
    (root / "README").write_bytes(b"of the checkpoint")
    with folding_tree(root, tmp_path / "home") as workspace:
        taken = workspace.snapshot().id
        (root / "README").rename(root / "readme")
        with pytest.raises(NamesFold) as refused:
            workspace.plan_restore(taken, history=[taken])  # "readme" is in no snapshot of the session, so it stays
        assert refused.value.pairs == ((b"readme", b"README"),)
        later = workspace.snapshot().id
        plan = workspace.plan_restore(taken, last=later, history=[taken, later])
        assert [one.path for one in plan.decision.deletes] == [b"readme"]


def test_a_fork_into_a_directory_and_an_imported_bundle_are_refused_and_leave_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    two_in_one(tmp_path / "tree")
    with relight.open(tmp_path / "relight.db") as rl:
        with rl.session("one", workspace=tmp_path / "tree") as s:
            s.append({"role": "user", "content": "x"})
        rl.history.export("one", tmp_path / "one.relight")
        monkeypatch.setattr(home, "TreeWorkspace", FoldingWorkspace)
        with pytest.raises(NamesFold):
            rl.history.fork("one", workspace=str(tmp_path / "fork"))
        assert not (tmp_path / "fork").exists()
    with relight.open(tmp_path / "other.db") as rl:
        imported = rl.history.import_(tmp_path / "one.relight", workspace=str(tmp_path / "imported"))
        with pytest.raises(NamesFold):
            rl.files.restore(imported.session)
        assert not (tmp_path / "imported").exists() or not list((tmp_path / "imported").iterdir())


def test_on_a_file_system_that_folds_the_old_spelling_is_deleted_before_the_new_one_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`Foo` was renamed to `foo`. Written first, `Foo` would find its name taken, and then be deleted as `foo`."""
    root, order = tmp_path / "tree", []
    root.mkdir()
    (root / "Foo").write_bytes(b"x")
    monkeypatch.setattr(executor, "is_one_path", lambda *_: True)
    delete, place = executor.RestoreExecutor._delete, Swapper.swap_in

    def deleting(self: executor.RestoreExecutor, action: Action) -> None:
        order.append("delete")
        delete(self, action)

    def placing(self: Swapper, path: bytes, *, replaces: bool) -> bool:
        order.append("write")
        return place(self, path, replaces=replaces)

    monkeypatch.setattr(executor.RestoreExecutor, "_delete", deleting)
    monkeypatch.setattr(Swapper, "swap_in", placing)
    with open_tree(root, tmp_path / "home") as workspace:
        first = workspace.snapshot().id
        (root / "Foo").rename(root / "foo")
        second = workspace.snapshot().id
        workspace.restore(workspace.plan_restore(first, last=second, history=[first, second]))
        assert (order, os.listdir(root)) == (["delete", "write"], ["Foo"])
        workspace.restore(workspace.plan_undo())
        assert os.listdir(root) == ["foo"]


def test_the_file_system_is_asked_and_left_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    fd = os.open(tmp_path, os.O_RDONLY)
    try:
        for directory in (b"", b"d", b"d/not/there"):
            assert not is_one_name(fd, directory, b"README", b"readme")
            assert not is_one_name(fd, directory, b"x" * 255, b"X" * 255)
            assert not is_one_path(fd, directory + b"/README", directory + b"/readme")
        assert is_one_path(fd, b"d/a", b"d/a") and not is_one_path(fd, b"d/a", b"a")
    finally:
        os.close(fd)
    assert sorted(picture(tmp_path)) == [b"d"]


def test_a_root_that_may_not_be_written_to_is_no_file_system_without_links(tmp_path: Path) -> None:
    link = Entry(name=b"link", kind="link", ref=b"target")
    tmp_path.chmod(0o555)
    fd, user = os.open(tmp_path, os.O_RDONLY), os.geteuid()
    os.seteuid(user or NOBODY)  # root may write everywhere
    try:
        with pytest.raises(PermissionError):
            os.symlink(b"target", b"link", dir_fd=fd)
        assert not_held(fd, [Action(path=b"below/link", entry=link), Action(path=b"below/a:b")]) == []
    finally:
        os.seteuid(user)
        os.close(fd)
