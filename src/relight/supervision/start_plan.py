"""Plan of what a start would do with the files of its session. Changes nothing.

The same code decides for the start itself: where a fork's files go (`fork.plan_fork`), what refuses it
(`first_start.check_files`), what `--restore` would write (a dry run of the restore). So a plan is what happens.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from relight.errors import Conflict, Corrupt, NotFound, NotResumable, RelightError, WorkspaceUnusable
from relight.files import restore, workspace_check
from relight.files.directories import check_places
from relight.history import fork
from relight.history.loading import Found
from relight.journal.lineage import visible
from relight.sessions.context import Context
from relight.supervision import first_start
from relight.values.info import FilesPlan, FilesState, Reason
from relight.values.options import ResumeOptions


def files_plan(
    context: Context, found: Found, options: ResumeOptions, held: FilesState | None
) -> tuple[FilesPlan | None, str | None, list[Reason]]:
    """The plan for the files, the directory the command would run in, and reasons to refuse. UsageError or Conflict for
    options that are impossible in any state of the session."""
    directory = found.identity.directory
    if fork.starts_new_session(found):
        return _of_a_fork(context, found, options, held)
    fork.refuse_at_head(found, options)
    if held is None:
        return None, directory, []
    try:
        lacking = workspace_check.lacking_roots(context, found)
        if lacking and (options.restore or workspace_check.is_unstarted_fork(context, found)):
            workspace_check.check_missing(context, found, lacking, restore=True)
            places = {root: found.identity.workspace[root] for root in lacking}
            return FilesPlan(action="made_anew", at=held.captured_at, places=places), directory, []
        if options.restore and not lacking and held.captured_at is not None:
            return _put_back(context, found, held), directory, []
    except RelightError as error:
        return None, directory, [_reason("files", error)]
    return FilesPlan(action="stay", places=found.identity.workspace), directory, []


def fork_files(
    context: Context, found: Found, *, name: str | None, workspace: str | Mapping[str, str] | None
) -> FilesPlan | None:
    """The directories a fork would get; None without a workspace. Raises what the fork itself would."""
    pending = fork.plan_fork(context, found, name=name, workspace=workspace, filled=workspace is not None)
    if not found.identity.workspace:
        return None
    if workspace is not None:
        fork.check_captured(pending)
        check_places(context, pending)
    rows = {row.seq: row for row in restore.rows_of(context, found)}
    path = visible({seq: row.base for seq, row in rows.items()}, head=restore.position_of(found), since=0)
    at = max((seq for seq in path if rows[seq].snapshots), default=None)
    is_known = name is not None or workspace is not None
    return FilesPlan(action="own_directory", at=at, places=pending.identity.workspace if is_known else {})


def _put_back(context: Context, found: Found, held: FilesState) -> FilesPlan:
    plans = restore.restore(context, found, choice="theirs", adopt=True, dry_run=True).plans
    number = sum(len(one.decision.writes) + len(one.decision.deletes) for one in plans.values())
    action: Literal["put_back", "stay"] = "put_back" if number else "stay"
    return FilesPlan(action=action, at=held.captured_at, places=found.identity.workspace, files=number)


def _of_a_fork(
    context: Context, found: Found, options: ResumeOptions, held: FilesState | None
) -> tuple[FilesPlan | None, str | None, list[Reason]]:
    try:
        pending = fork.plan_fork(
            context, found, name=options.name, workspace=options.workspace, in_place=options.in_place
        )
    except (NotFound, Corrupt) as error:
        return None, None, [_reason("files", error)]
    identity, at = pending.identity, held.captured_at if held is not None else None
    if held is None:
        return None, identity.directory, []
    if options.in_place:
        action: Literal["in_place", "stay"] = "in_place" if pending.files else "stay"
        plan = FilesPlan(action=action, at=at if pending.files else None, places=identity.workspace)
    else:
        is_known = options.name is not None or options.workspace is not None  # else its id, which is not drawn yet
        plan = FilesPlan(action="own_directory", at=at, places=identity.workspace if is_known else {})
    try:
        first_start.check_files(context, pending)
    except (NotResumable, Conflict, WorkspaceUnusable) as error:
        return plan, None, [_reason("files", error)]
    return plan, identity.directory if plan.places else None, []


def _reason(code: str, error: RelightError) -> Reason:
    why = error.why if isinstance(error, NotResumable) else error.message
    return Reason(code=code, text=why, cure=error.hints[0] if error.hints else None)
