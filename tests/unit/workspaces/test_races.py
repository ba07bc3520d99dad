"""Somebody saves a file in the very moment in which a restore replaces or deletes it: nothing of theirs is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from relight.ports import faults
from relight.workspaces.restore import openat
from tests.support.figures import Figure
from tests.support.trees import open_tree


def save(path: Path) -> None:
    """As editors do: a new file under the old name."""
    partial = path.with_name("editing")
    partial.write_bytes(b"saved in that very moment")
    partial.replace(path)


@pytest.mark.guarantee("G16")
@pytest.mark.parametrize("name", ["replaced", "deleted"])
def test_what_is_saved_during_a_restore_is_kept_and_told(
    tmp_path: Path, name: str, system: str, figure: Figure
) -> None:
    root = tmp_path / "tree"
    root.mkdir()
    (root / "replaced").write_bytes(b"one")
    with open_tree(root, tmp_path / "home") as workspace:
        first = workspace.snapshot().id
        (root / "replaced").write_bytes(b"two")
        (root / "deleted").write_bytes(b"only now")
        second = workspace.snapshot().id
        plan = workspace.plan_restore(first, last=second, history=[first, second])

        def meanwhile(_: str) -> None:
            faults.disarm()
            save(root / name)

        faults.arm("restore.synced", meanwhile)  # everything is ready, and nothing has its name yet
        try:
            outcome = workspace.restore(plan)
        finally:
            faults.disarm()
        assert (root / name).read_bytes() == b"saved in that very moment"
        assert outcome.changed_meanwhile == (name.encode(),)
        assert sorted(path.name for path in root.iterdir()) == sorted({"replaced", name})
    figure("G16", f"a file saved while it was {name} ({system}): kept, and told")


@pytest.mark.parametrize("moment", ["restore.set_aside", "restore.swapped"])
@pytest.mark.guarantee("G16")
def test_what_is_saved_between_the_three_renames_is_kept(
    tmp_path: Path, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the name is free, and just after it was taken, where the system cannot exchange names."""
    monkeypatch.setattr(openat, "calls", openat.Calls(None, "POSIX"))
    root = tmp_path / "tree"
    root.mkdir()
    (root / "file").write_bytes(b"one")
    with open_tree(root, tmp_path / "home") as workspace:
        first = workspace.snapshot().id
        (root / "file").write_bytes(b"three")
        second = workspace.snapshot().id
        plan = workspace.plan_restore(first, last=second, history=[first, second])
        free = []

        def meanwhile(_: str) -> None:
            if moment == "restore.swapped" or not (root / "file").exists():
                faults.disarm()
                free.append(moment)
                save(root / "file")

        faults.arm(moment, meanwhile)
        try:
            outcome = workspace.restore(plan)
        finally:
            faults.disarm()
    assert free == [moment]
    assert (root / "file").read_bytes() == b"saved in that very moment"
    assert [path.name for path in root.iterdir()] == ["file"]
    assert outcome.changed_meanwhile == ((b"file",) if moment == "restore.set_aside" else ())
