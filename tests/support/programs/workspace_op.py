"""One thing done to a tree workspace, without a session around it: to be killed at any point of it."""

from __future__ import annotations

from pathlib import Path

from relight.workspaces.changes import native
from relight.workspaces.restore import openat
from tests.support.trees import open_tree

LOADED = native.load()  # so that a fork of the fork server need not


def main(what: str, root: str, home: str, ids: list[str], reported: str, system: str = "Linux") -> None:
    """Snapshot, restore, undo or sweep; the id of a snapshot is told in a file that outlives us.

    Another `system` than Linux has none of its special calls."""
    if system != "Linux":
        openat.calls = openat.Calls(None, system)
    with open_tree(Path(root), Path(home)) as workspace:
        if what == "snapshot":
            Path(reported).write_text(workspace.snapshot().id)
        elif what == "restore":
            workspace.restore(workspace.plan_restore(ids[0], last=ids[1], history=ids, choice="force"))
        elif what == "undo":
            workspace.restore(workspace.plan_undo(choice="force"))
        else:
            workspace.sweep(lambda: ids, thorough=True)
