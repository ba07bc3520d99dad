"""Captures the workspace of a program that does not use the library: before each start, and at its end.

A program that opens its session captures its files itself, with every step. For one that never does, the supervisor
captures them with its own steps: `working`, with the files before the run (after a kill, as the dead attempt left
them), and the end, with the files after it. Whether a program will open its session is not known before it runs: if its
command shows that it imports relight, nothing is captured before the run.
"""

from __future__ import annotations

from typing import Any

from relight.errors import RelightError
from relight.files import restore
from relight.files.capture import Files, commit_with_files, with_snapshots
from relight.history.loading import resolve
from relight.sessions.context import Context
from relight.sessions.recorder import Recorder
from relight.values.checkpoint import Checkpoint
from relight.values.status import StatusChange
from relight.values.step import Changes


class RunFiles:
    """The workspace of one supervised program; does nothing if its session has none."""

    def __init__(self, context: Context, session: str) -> None:
        self._context = context
        self._session = session
        self._files: Files | None = None
        self._are_ours = False
        """whether the program itself does not capture them"""

    def before_start(self, recorder: Recorder) -> None:
        """Capture the files in the step that sets the status to working. Raises if the workspace is unusable."""
        identity = recorder.identity
        if not identity.workspace or not identity.command or identity.policy.library:
            return
        if not self._context.uses_library(identity.command, identity.directory or "."):
            self._opened()
            self._are_ours = True
            self.commit(recorder, Changes(status=StatusChange(status="working")))

    def has_ended(self, *, plain: bool) -> None:
        """The program has ended. `plain`: it never opened its session."""
        self._are_ours = plain
        if not plain:
            self.close()

    def commit(self, recorder: Recorder, changes: Changes, **how: Any) -> Checkpoint:
        """Commit a status step, with a capture of the files if they are ours to capture. A failed capture becomes a
        note; the step is committed anyway."""
        if not self._are_ours or not recorder.identity.workspace:
            return recorder.commit("status", changes, **how)
        try:
            files = self._opened()
        except RelightError as error:
            return recorder.commit("status", with_snapshots(changes, (), str(error)), **how)
        return commit_with_files(files, recorder, "status", changes, **how)

    def _opened(self) -> Files:
        if self._files is None:
            found = resolve(self._context.store, self._session)
            rows = restore.rows_of(self._context, found)
            last = restore.snapshots_at(rows, found.whole_head().head)
            self._files = Files(self._context, found.identity, last)
        return self._files

    def close(self) -> None:
        """Close the workspace: the program has ended, or captures it itself."""
        if self._files is not None:
            self._files.close()
            self._files = None
