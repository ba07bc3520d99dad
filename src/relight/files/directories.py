"""Directories created for one start: filled from a checkpoint, kept if the start commits, else removed."""

from __future__ import annotations

import os
from collections.abc import Mapping

import msgspec

from relight.errors import Conflict, WorkspaceUnusable
from relight.files.capture import close_all, open_roots
from relight.history.loading import Found
from relight.ports.workspace import MadeDirectory
from relight.sessions.context import Context
from relight.values.session import Identity, Pending


class Directories:
    """Empty at first. `fill` creates them; then `keep` or `discard`, once."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._made: list[MadeDirectory] = []

    def fill(self, found: Found, targets: Mapping[str, str]) -> None:
        """Create the directories of these roots and restore the snapshots into them. On failure none of them
        remains."""
        identity, attempt = found.identity, found.whole_head().attempt
        paths = {root: identity.workspace[root] for root in targets}
        workspaces = self._context.workspaces()
        try:
            # A root inside another one is restored into it, so the outer directory must exist first.
            for root in sorted(paths, key=lambda one: len(paths[one])):  # outer directories first
                if not any(paths[root].startswith(f"{path}/") for path in paths.values()):
                    made = workspaces.make(
                        paths[root], name=root, session=identity.id, attempt=attempt, begun=self.has_begun
                    )
                    self._made.append(made)
                self._restore(msgspec.structs.replace(identity, workspace={root: paths[root]}), root, targets[root])
        except BaseException:
            self.discard()
            raise

    def _restore(self, identity: Identity, root: str, target: str) -> None:
        opened = open_roots(self._context.workspaces(), identity, watch=False, adopt=True)
        try:
            opened[root].restore(opened[root].plan_restore(target, choice="force"))
        finally:
            close_all(opened)

    def has_begun(self, session: str, attempt: int) -> bool:
        """Whether the session has begun an attempt after this one, so that what was created for it is in use."""
        record = self._context.store.find(session)
        return record is not None and (record.head is None or record.head.attempt > attempt)

    def keep(self) -> None:
        """Keep them: a session works in them now."""
        for made in self._made:
            made.keep()
        self._made.clear()

    def discard(self) -> None:
        for made in reversed(self._made):
            made.discard()
        self._made.clear()


def check_places(context: Context, pending: Pending) -> None:
    """Raise what creating the directories of a new session would raise, before anything is created."""
    begun = Directories(context).has_begun
    for root, path in pending.identity.workspace.items():
        if not os.path.lexists(path) or context.workspaces().is_unfinished(path, begun):
            continue
        if not os.path.isdir(path):
            raise WorkspaceUnusable(root, path, "a file that is not a directory is in its place")
        if os.listdir(path):
            raise Conflict(f"{path}: not empty; choose a new directory")
