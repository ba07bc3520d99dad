"""`rl.files`: the captured files of sessions: their state, content, differences, and putting them back."""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from relight.library.noun import Noun
from relight.system.lazy_module import LazyModule
from relight.values.checkpoint import Checkpoint
from relight.values.info import FilesPlan, FilesState
from relight.values.snapshot import Choice

if TYPE_CHECKING:
    from relight.files import diff as comparing
    from relight.files import repositories
    from relight.files import restore as restoring
    from relight.files import status as statuses
    from relight.files.operation import FilesReport
    from relight.supervision import start_plan
else:
    comparing, repositories, statuses, restoring, start_plan = map(
        LazyModule,
        (
            "relight.files.diff",
            "relight.files.repositories",
            "relight.files.status",
            "relight.files.restore",
            "relight.supervision.start_plan",
        ),
    )


class Files(Noun):
    """The files of sessions that have a workspace, as captured at their checkpoints."""

    def status(self, ref: str, *, disk: bool = False, start: bool = False) -> FilesState | None:
        """Status of a checkpoint's files; None without a workspace. `disk`: compare with the disk; `start`: changes
        since the first capture."""
        return statuses.files_status(self._context, self._found(ref), disk=disk, start=start)

    def list(self, ref: str) -> Iterator[comparing.HeldFile]:
        """The files and links that were captured at a checkpoint, by root and path. NotFound if nothing was."""
        return comparing.files_held(self._context, self._found(ref))

    def read(self, ref: str, path: str, *, root: str = "main") -> bytes:
        """One captured file as it was at a checkpoint."""
        return comparing.file_at(self._context, self._found(ref), root, path)

    def diff(self, a: str, b: str | None = None) -> builtins.list[comparing.FileDiff]:
        """How files differ between two checkpoints, or between one and the disk now."""
        return comparing.diff(self._context, self._found(a), self._found(b) if b is not None else None)

    def restore(
        self,
        ref: str,
        *,
        paths: Sequence[str] = (),
        choice: Choice = "stop",
        exact: bool = False,
        dry_run: bool = False,
    ) -> FilesReport:
        """Restore the workspace's files to a checkpoint, all or some paths; `dry_run` only reports."""
        found = self._found(ref)
        return restoring.restore(self._context, found, paths=paths, choice=choice, exact=exact, dry_run=dry_run)

    def plan_fork(
        self, ref: str, *, name: str | None = None, workspace: str | Mapping[str, str] | None = None
    ) -> FilesPlan | None:
        """The directories a fork would use; None if the session has no workspace. Refused like the fork."""
        return start_plan.fork_files(self._context, self._found(ref), name=name, workspace=workspace)

    def accept_repository(self, ref: str) -> Checkpoint:
        """Accept that the Git repositories of its workspace are on another branch than the session left them; a
        start is refused until then. Recorded as a step."""
        return repositories.accept(self._context, self._found(ref))

    def size_bytes(self) -> int:
        """Disk usage of the captured files of all sessions."""
        return self._context.workspaces().size_bytes() if self._context.store.list_pools() else 0

    def location(self) -> tuple[str, bool]:
        """The location of captured files, and whether it is remote."""
        workspaces = self._context.workspaces()
        return workspaces.location, workspaces.is_remote
