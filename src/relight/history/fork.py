"""Forks with files: a session that begins at a checkpoint gets that checkpoint's files in its own directories.

A fork records where its files will be: a directory beside the original, filled by its first start. If a directory is
given, it is filled before the fork exists. Two sessions never share a live directory unless that is requested.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import msgspec

from relight.errors import Conflict, NotFound, UsageError
from relight.files.directories import Directories
from relight.files.restore import files_at, new_roots, position_of, rows_of, snapshots_at
from relight.history import branching
from relight.history.loading import Found
from relight.sessions.context import Context
from relight.sessions.names import release_archived
from relight.sessions.pending_store import with_pending
from relight.values.options import ResumeOptions
from relight.values.session import Identity, Pending

_MAX_SUFFIX: Final = 1000


def fork(
    context: Context,
    found: Found,
    *,
    name: str | None = None,
    prompt: str | None = None,
    edit: str | None = None,
    workspace: str | Mapping[str, str] | None = None,
) -> Identity:
    """A new session from a checkpoint, or from the head; the parent is not changed. `edit`: another text for its last
    message. `workspace`: directories to create and fill now; otherwise its first start creates its own."""
    if edit is not None and prompt is not None:
        raise UsageError("a fork has an edited message or a prompt, not both")
    pending = plan_fork(context, found, name=name, workspace=workspace, filled=workspace is not None)
    made = Directories(context)
    try:
        if workspace is not None:
            check_captured(pending)
            made.fill(Found(identity=pending.identity, head=pending.head, seq=None), pending.files)
        if prompt is not None or edit is not None:  # fork and prompt are one commit
            with_fork = with_pending(context, pending)
            made_at = Found(identity=pending.identity, head=pending.head, seq=None)
            if prompt is not None:
                branching.add_prompt(with_fork, made_at, prompt)
            elif edit is not None:
                branching.edit_last(with_fork, made_at, edit)
        else:
            release_archived(context, name)
            context.store.create(pending.identity, pending.head)
    except BaseException:
        made.discard()
        raise
    # Only after the commit: a crash before this line leaves directories that are still marked as unfinished, which a
    # later start reuses.
    made.keep()
    return pending.identity


def plan_fork(
    context: Context,
    found: Found,
    *,
    name: str | None = None,
    workspace: str | Mapping[str, str] | None = None,
    in_place: bool = False,
    filled: bool = True,
) -> Pending:
    """The session that a fork would be; nothing is written or created. `filled`: its files are needed now."""
    if in_place and workspace is not None:
        raise UsageError("in_place uses the original directory: do not name another one")
    identity, head = branching.planned_fork(context, found, name=name)
    pending = Pending(
        identity=identity, head=head, asked=f"{found.identity.id}@{position_of(found)}", in_place=in_place
    )
    if not identity.workspace:
        if workspace is not None or in_place:
            raise Conflict("the session has no workspace to put into a directory")
        return pending
    rows = rows_of(context, found)
    held = files_at(context, found, rows) if filled else snapshots_at(rows, position_of(found))
    if in_place:
        return msgspec.structs.replace(pending, files=held)
    roots = new_roots(workspace, identity.workspace) if workspace is not None else own_roots(context, identity)
    files = {root: held[root] for root in roots if root in held}
    return msgspec.structs.replace(pending, identity=branching.moved(identity, roots), files=files)


def starts_new_session(found: Found) -> bool:
    """Whether a start from there begins a new session, because the checkpoint is before the head."""
    return found.seq is not None and found.seq != found.whole_head().head


def refuse_at_head(found: Found, options: ResumeOptions) -> None:
    """UsageError for options that only a new session can have."""
    if options.workspace is not None or options.in_place or options.name is not None:
        raise UsageError(
            "a name, a directory of its own and in place are for a checkpoint below the head, which is forked",
            hints=[f"name one: {found.identity.name or found.identity.id[:8]}@SEQ"],
        )


def check_captured(pending: Pending) -> None:
    """NotFound if a directory cannot be filled, because nothing of it was captured up to the checkpoint."""
    if lacking := [root for root in pending.identity.workspace if root not in pending.files]:
        asked = pending.asked or pending.identity.id
        hints = [f"see which checkpoints have files: relight checkpoints {asked.partition('@')[0][:12]}"]
        raise NotFound(asked, what=f'captured state of the files in "{lacking[0]}" at the checkpoint', hints=hints)


def own_roots(context: Context, identity: Identity) -> dict[str, str]:
    """A new directory for every root, beside the original; a root inside another one moves with it."""
    begun = Directories(context).has_begun
    suffix = identity.name or identity.id[:8]
    roots: dict[str, str] = {}
    for name, path in sorted(identity.workspace.items(), key=lambda one: len(one[1])):
        outer = next((one for one in roots if path.startswith(identity.workspace[one].rstrip("/") + "/")), None)
        if outer is not None:
            roots[name] = roots[outer] + path[len(identity.workspace[outer].rstrip("/")) :]
        else:
            left = partial(context.workspaces().is_unfinished, begun=begun)
            roots[name] = _unused(f"{path.rstrip('/')}-{suffix}", left)
    return {name: roots[name] for name in identity.workspace}


def _unused(path: str, is_left: Callable[[str], bool]) -> str:
    """The first path of this name that does not exist, or that is left over from a killed start."""
    for number in range(1, _MAX_SUFFIX):
        tried = path if number == 1 else f"{path}-{number}"
        if not os.path.lexists(tried) or is_left(tried):
            return tried
    raise Conflict(f"{path}: {_MAX_SUFFIX} directories of this name exist", hints=["choose another directory"])
