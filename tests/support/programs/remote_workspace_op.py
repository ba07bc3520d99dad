"""One thing done to a workspace whose content lies off the machine: to be killed at any point of it."""

from __future__ import annotations

from pathlib import Path

from relight.workspaces.changes import native
from relight.workspaces.remote import part
from tests.support.machines import Fleet, restored

LOADED = native.load()  # so that a fork of the fork server need not
part.PART_BYTES = 20_000  # type: ignore[misc]  # so that a small tree is several parts


def main(what: str, path: str, machine: str, ids: list[str], reported: str) -> None:
    """Snapshot, restore or sweep; the id of a snapshot is told in a file that outlives us."""
    with Fleet(Path(path)).machine(machine).open() as workspace:
        if what == "snapshot":
            Path(reported).write_text(workspace.snapshot().id)
        elif what == "restore":
            restored(workspace, ids[0])
        else:
            workspace.sweep(lambda: ids, thorough=True)
