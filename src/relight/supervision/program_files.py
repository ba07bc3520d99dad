"""The workspace of a program that does not use the library: captured by its supervisor, at each start and at the end.

A program that opens its session captures its files itself, with every step. One that never does has the steps of its
supervisor alone: `working`, with the files as they are before it runs (after a kill, as the dead attempt left them),
and its end, with what it made of them. Whether it will open its session is not known before it runs; where its command
shows that it does, nothing is captured before, and where it did not after all, its end is.
"""

from __future__ import annotations

from typing import Any

from relight.errors import RelightError
from relight.files import restore
from relight.files.capture import Files, with_snapshots
from relight.history.loading import resolve
from relight.sessions.context import Context
from relight.sessions.recorder import Recorder
from relight.values.checkpoint import Checkpoint
from relight.values.snapshot import Snapshot
from relight.values.status import StatusChange
from relight.values.step import Changes


class RunFiles:
    """Of one supervised program; nothing where its session has no workspace."""

    def __init__(self, context: Context, session: str) -> None:
        self._context = context
        self._session = session
        self._files: Files | None = None
        self._are_ours = False
        """is it known that nobody else captures them?"""

    def before_start(self, recorder: Recorder) -> None:
        """Capture, and show it as working in the same step. An unusable workspace is refused."""
        identity = recorder.identity
        if not identity.workspace or not identity.command or identity.policy.library:
            return
        if not self._context.uses_library(identity.command, identity.directory or "."):
            self._opened()
            self._are_ours = True
            self.commit(recorder, Changes(status=StatusChange(status="working")))

    def has_ended(self, *, plain: bool) -> None:
        """Its program has. `plain`: it never opened its session."""
        self._are_ours = plain
        if not plain:
            self.close()

    def commit(self, recorder: Recorder, changes: Changes, **how: Any) -> Checkpoint:
        """A step of its status, with the files as they are where they are ours to capture; a capture that fails costs
        a note and not the step."""
        if not self._are_ours or not recorder.identity.workspace:
            return recorder.commit("status", changes, **how)
        try:
            files = self._opened()
        except RelightError as error:
            return recorder.commit("status", with_snapshots(changes, (), str(error)), **how)

        def write(snapshots: tuple[Snapshot, ...], failure: str | None) -> Checkpoint:
            return recorder.commit("status", with_snapshots(changes, snapshots, failure), snapshots=snapshots, **how)

        return files.commit("status", is_reply=False, asked=False, write=write)

    def _opened(self) -> Files:
        if self._files is None:
            found = resolve(self._context.store, self._session)
            rows = restore.rows_of(self._context, found)
            last = restore.snapshots_at(rows, found.whole_head().head)
            self._files = Files(self._context, found.identity, last)
        return self._files

    def close(self) -> None:
        """Let go of the workspace: its program has ended, or captures it itself."""
        if self._files is not None:
            self._files.close()
            self._files = None
