"""The files of an open session: its roots, when they are captured, and what was captured last.

A snapshot is durable before the step that names it is passed to the store, so a step only ever names durable content.
If a capture that is due by policy fails, the step is committed all the same, with a note: a paid reply is worth more
than its files. If the program asks for a snapshot itself, it gets the error.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import msgspec

from relight.errors import RelightError, RestoreUnfinished, SnapshotSwept, UsageError, WorkspaceUnusable
from relight.history.listing import every_session
from relight.history.loading import Found
from relight.journal.files.capture_moments import check_moments, is_due
from relight.ports.store import Query
from relight.ports.workspace import Workspace, Workspaces
from relight.sessions.context import Context
from relight.values.checkpoint import Checkpoint
from relight.values.session import Identity, change_between
from relight.values.snapshot import Snapshot
from relight.values.status import STATUSES
from relight.values.step import Changes, StepKind

if TYPE_CHECKING:
    from relight.sessions.recorder import Recorder

DEFAULT_ROOT: Final = "main"
MAX_SWEPT_TRIES: Final = 4
_RESUMABLE: Final = frozenset(STATUSES) - {"archived", "completed"}
"""statuses of sessions that can be resumed without a new prompt"""


def named_roots(workspace: str | os.PathLike[str] | Mapping[str, str]) -> dict[str, str]:
    """Root name to path, from a path or from named paths."""
    roots = dict(workspace) if isinstance(workspace, Mapping) else {DEFAULT_ROOT: workspace}
    if not roots or not all(isinstance(name, str) and name and _is_path(path) for name, path in roots.items()):
        raise UsageError("a workspace is a path in UTF-8, or a mapping from root name to path")
    return {name: os.fspath(path) for name, path in roots.items()}


def _is_path(path: object) -> bool:
    """Whether it is a non-empty path without NUL, and can be recorded: a name that is not UTF-8 has lone surrogates."""
    text = os.fspath(path) if isinstance(path, os.PathLike) else path
    return isinstance(text, str) and text != "" and not re.search("[\0\ud800-\udfff]", text)


def open_roots(
    workspaces: Workspaces, identity: Identity, *, watch: bool, adopt: bool = False, read_only: bool = False
) -> dict[str, Workspace]:
    """Open the session's roots. An error names the root and the path, and leaves none of them open."""
    opened: dict[str, Workspace] = {}
    try:
        with complete_hints(identity):
            for name, path in identity.workspace.items():
                pool = identity.pools.get(name) or workspaces.pool_of(path)
                opened[name] = workspaces.open(
                    path,
                    name=name,
                    pool=pool,
                    watch=watch,
                    adopt=adopt,
                    read_only=read_only,
                    plain_modes=is_untrusted(identity),
                )
    except BaseException:
        close_all(opened)
        raise
    return opened


def is_untrusted(identity: Identity) -> bool:
    """Whether it, or the session it was forked from, came with a bundle whose signature is not trusted here."""
    noted = identity.metadata.get("imported")
    return isinstance(noted, Mapping) and noted.get("trusted") is False


@contextmanager
def complete_hints(identity: Identity) -> Iterator[None]:
    """Complete hints of workspace errors with the session's name, which a workspace does not know."""
    try:
        yield
    except RelightError as error:
        error.name_session(identity.name or identity.id)
        raise


def refuse_unfinished(name: str, path: str, root: Workspace, *, target: str | None = None) -> None:
    """RestoreUnfinished if a restore of this root was interrupted, unless it was on its way to `target`."""
    for one in root.restores():
        if one.state == "begun" and (one.target != target or one.undoes):
            raise RestoreUnfinished(f'workspace "{name}" ({path})', restore=one.id, target=one.target)


def close_all(roots: Mapping[str, Workspace]) -> None:
    """Close descriptors and watches."""
    for root in roots.values():
        root.close()


def record_workspace(
    context: Context, found: Found, workspace: str | os.PathLike[str] | Mapping[str, str], moments: str | float
) -> Found:
    """Record the session's roots, and when they are captured."""
    wanted = fitted(context, found.identity, workspace, moments)
    if wanted != found.identity:
        wanted = context.store.update(wanted.id, change_between(found.identity, wanted))
    return Found(identity=wanted, head=found.head, seq=found.seq)


def fitted(
    context: Context,
    identity: Identity,
    workspace: str | os.PathLike[str] | Mapping[str, str] | None,
    moments: str | float | None,
) -> Identity:
    """The identity with these roots and capture moments, or those it has; an unusable root is refused before
    anything is written."""
    wanted = with_roots(context, identity, workspace) if workspace is not None else identity
    if moments is not None:
        wanted = msgspec.structs.replace(wanted, snapshot=check_moments(moments))
    if wanted.workspace == identity.workspace:
        return wanted
    try:
        close_all(open_roots(context.workspaces(), wanted, watch=False, read_only=True))
    except WorkspaceUnusable as error:
        raise never_captured(context, identity, error) from None
    return wanted


def never_captured(context: Context, identity: Identity, error: WorkspaceUnusable) -> WorkspaceUnusable:
    """The error with hints that fit a session of which nothing was ever captured: nothing of it can be restored, and
    one that is only being begun will not exist."""
    if not os.path.lexists(error.path):
        error.hints = (f"create it first: mkdir -p {shlex.quote(error.path)}",)
    elif any(" resume " in hint for hint in error.hints):  # it replaced a directory that others have recorded
        there = (
            one.identity for one in every_session(context.store, Query(statuses=_RESUMABLE)) if one.identity.command
        )
        other = next((one for one in there if one.id != identity.id and error.path in one.workspace.values()), None)
        whose = (
            f"restore the files of that one here: relight resume {other.name or other.id} --restore" if other else ""
        )
        error.hints = (*filter(None, [whose]), "work in another directory: relight run --workspace DIR")
    return error


def workspace_changes(before: Identity, wanted: Identity) -> dict[str, Any]:
    """The fields that `fitted` changed."""
    fields = ("workspace", "pools", "snapshot")
    return {name: getattr(wanted, name) for name in fields if getattr(wanted, name) != getattr(before, name)}


def with_roots(context: Context, identity: Identity, workspace: str | os.PathLike[str] | Mapping[str, str]) -> Identity:
    """The identity with these roots. A pool once chosen stays."""
    roots = {name: os.path.abspath(path) for name, path in named_roots(workspace).items()}
    pools = {name: identity.pools.get(name) or context.workspaces().pool_of(path) for name, path in roots.items()}
    return msgspec.structs.replace(identity, workspace=roots, pools=pools)


class Files:
    """The roots of one open session."""

    def __init__(self, context: Context, identity: Identity, last: Mapping[str, str]) -> None:
        self._context = context
        self._moments = identity.snapshot
        self._roots = self._opened(identity)
        self._committed = dict(last)
        """newest snapshot of each root that a step names"""
        self._uncommitted: dict[str, Snapshot] = {}
        """snapshots that the next step will name"""
        self._taken_at_us = context.clock.instant().us
        self.failure: str | None = None
        """why the last capture that was due by policy failed"""

    def _opened(self, identity: Identity) -> dict[str, Workspace]:
        """Open and watch the roots; refused while a restore is unfinished."""
        roots = open_roots(self._context.workspaces(), identity, watch=True)
        try:
            with complete_hints(identity):
                for name, root in roots.items():
                    refuse_unfinished(name, identity.workspace[name], root)
        except BaseException:
            close_all(roots)
            raise
        return roots

    def capture(self) -> dict[str, Snapshot]:
        """Capture all roots now; the next step names the snapshots."""
        for name, root in self._roots.items():
            self._uncommitted[name] = root.snapshot()
        self._taken_at_us = self._context.clock.instant().us
        return dict(self._uncommitted)

    def baseline(self) -> bool:
        """Capture the unchanged files before the first start, for the next step. False if that was done, or is not
        wanted."""
        if self._committed or self._moments == "manual":
            return False
        try:
            self.capture()
        except RelightError as error:
            self._context.notify(f"the files could not be captured: {error}")
            return False
        return True

    def due(self, kind: StepKind, *, is_reply: bool, asked: bool) -> tuple[Snapshot, ...]:
        """The snapshots that the next step must name; an unchanged root adds none."""
        self.failure = None
        seconds = (self._context.clock.instant().us - self._taken_at_us) / 1e6
        # A capture that the program asked for raises; one that is only due by policy must not cost the step.
        if asked and self._moments != "manual":
            self.capture()
        elif is_due(self._moments, kind, is_reply=is_reply, seconds_since=seconds):
            try:
                self.capture()
            except RelightError as error:
                self.failure = str(error)
                self._context.notify(f"the files could not be captured: {error}")
        return tuple(one for name, one in self._uncommitted.items() if self._committed.get(name) != one.id)

    def commit(
        self, recorder: Recorder, kind: StepKind, changes: Changes, *, is_reply: bool, asked: bool, **how: Any
    ) -> Checkpoint:
        """Commit a step with the snapshots that are due, or with the reason why there are none.

        If a sweep removed their content before the step was committed, they are taken again; if that keeps happening,
        the step is committed without them, unless they were asked for.
        """

        def write(snapshots: tuple[Snapshot, ...], failure: str | None) -> Checkpoint:
            named = with_snapshots(changes, snapshots, failure)
            return recorder.commit(kind, named, snapshots=snapshots, **how)

        snapshots = self.due(kind, is_reply=is_reply, asked=asked)
        swept: SnapshotSwept | None = None
        for _ in range(MAX_SWEPT_TRIES):
            try:
                return self._named(snapshots, write(snapshots, self.failure))
            # A sweep may remove content between its capture and the commit of the step that names it. The store detects
            # that inside the commit, by the missing segment rows.
            except SnapshotSwept as error:
                swept = error
                snapshots = self._recapture(asked=asked)
        assert swept is not None
        if asked:
            raise swept
        return self._named((), write((), str(swept)))

    def _named(self, snapshots: tuple[Snapshot, ...], checkpoint: Checkpoint) -> Checkpoint:
        """Mark the snapshots as named by a step."""
        self._committed.update((one.root, one.id) for one in snapshots)
        self._uncommitted.clear()
        return checkpoint

    def _recapture(self, *, asked: bool) -> tuple[Snapshot, ...]:
        """Their content was swept before a step named them: capture again."""
        self._committed.clear()
        self.failure = None
        try:
            for root in self._roots.values():
                root.recover()
            return tuple(self.capture().values())
        except RelightError as error:
            if asked:
                raise
            self.failure = str(error)
            return ()

    def forget_committed(self) -> None:
        """Others are in view now than those this object knows: another program wrote, or the session was rewound.
        The next capture names all of them."""
        self._committed.clear()

    def close(self) -> None:
        close_all(self._roots)


def commit_with_files(
    files: Files | None,
    recorder: Recorder,
    kind: StepKind,
    changes: Changes,
    *,
    is_reply: bool = False,
    asked: bool = False,
    **how: Any,
) -> Checkpoint:
    """`Recorder.commit`, with the snapshots that are due if the session has files open."""
    if files is None:
        return recorder.commit(kind, changes, **how)
    return files.commit(recorder, kind, changes, is_reply=is_reply, asked=asked, **how)


def with_snapshots(changes: Changes, snapshots: tuple[Snapshot, ...], failure: str | None) -> Changes:
    """The changes with the snapshots they name, or with a note why there are none."""
    if failure is not None:
        changes = msgspec.structs.replace(changes, note={**(changes.note or {}), "files_not_captured": failure})
    if snapshots:
        changes = msgspec.structs.replace(changes, snapshot={one.root: one.id for one in snapshots})
    return changes
