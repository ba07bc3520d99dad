"""A store, a directory an agent works in, and processes that come and go: what the tests of files share."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from relight.files.restore import rows_of
from relight.history.loading import resolve
from relight.library.facade import Relight
from relight.ports.store import CheckpointRow, Store
from relight.testing.workspace_kit import Picture, picture
from relight.values.session import Identity
from relight.workspaces.home import TreeWorkspaces
from relight.workspaces.policy import TreePolicy
from relight.workspaces.workspace import TreeWorkspace
from tests.support.simulation import Simulation


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def reply(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


class FilesHarness:
    """One world, one workspace."""

    def __init__(self, kind: str, path: Path) -> None:
        self.path = path
        self.root = path / "tree"
        self.root.mkdir()
        self.blobs = path / "relight.db.blobs"
        self.world = Simulation(path / "relight.db" if kind == "sqlite" else None)
        self.policy = TreePolicy()
        if self.world._memory is not None:
            self.world._memory.blobs = self.blobs  # so that another process finds the same content

    def start(self, store: Store | None = None) -> Relight:
        """A new process."""
        bound = self.world.start(store)._context
        workspaces = cache(lambda: TreeWorkspaces(bound.store, self.policy))
        return Relight(msgspec.structs.replace(bound, workspaces=workspaces))

    def restart(self) -> Relight:
        """All die, and a new one starts."""
        self.world.crash()
        return self.start()

    # -- the tree ---------------------------------------------------------------------------------------------

    def write(self, name: str, data: str | bytes = b"") -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)

    def read(self, name: str) -> str | None:
        path = self.root / name
        return path.read_text() if path.exists() else None

    def picture(self) -> Picture:
        return picture(self.root)

    # -- the store --------------------------------------------------------------------------------------------

    def working(self, rl: Relight, *contents: str, name: str = "agent", **options: Any) -> list[int]:
        """A session that writes `file` before each reply, and is left; the seqs of its replies."""
        seqs = []
        with rl.session(name, workspace=self.root, **options) as s:
            for content in contents:
                self.write("file", content)
                checkpoint = s.append(reply(content))
                assert checkpoint is not None
                seqs.append(checkpoint.seq)
        return seqs

    def damage(self, rl: Relight, ref: str = "agent") -> list[str]:
        """Everything that a checkpoint names and the pool does not hold whole."""
        found = resolve(rl.store, ref)
        return [
            f"@{row.seq} {problem}"
            for row in rows_of(rl._context, found)
            for name, snapshot in row.snapshots.items()
            for problem in verify(rl, found.identity, name, snapshot)
        ]


def verify(rl: Relight, identity: Identity, name: str, snapshot: str) -> tuple[str, ...]:
    """What of a snapshot's content is missing or damaged."""
    root = rl._context.workspaces().open(identity.workspace[name], name=name, pool=identity.pools[name])
    assert isinstance(root, TreeWorkspace)
    with root:
        return root.verify(snapshot)


def rows(rl: Relight, ref: str = "agent") -> list[CheckpointRow]:
    """All steps of a session, without bodies."""
    return rows_of(rl._context, resolve(rl.store, ref))


def captured(rl: Relight, ref: str = "agent") -> list[int]:
    """The steps that carry a snapshot."""
    return [row.seq for row in rows(rl, ref) if row.snapshots]


def note_at(rl: Relight, seq: int, ref: str = "agent") -> dict[str, Any]:
    """The note of a step."""
    return next(event.note for event in rl.history.events(ref) if event.seq == seq)
