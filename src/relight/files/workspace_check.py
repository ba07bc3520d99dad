"""Checks before a resume: does the workspace exist, and can it be restored?

A missing workspace is refused before anything is changed. On request it is created again and filled from the
checkpoint's snapshot; existing files are left as they are. The directory of a fork that never ran is created by its
first start.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager

from relight.errors import NotResumable, WorkspaceUnusable
from relight.files import restore as restoring
from relight.files.capture import close_all, open_roots, refuse_unfinished
from relight.files.directories import Directories
from relight.files.operation import FilesReport
from relight.history.listing import every_session
from relight.history.loading import Found
from relight.journal.status import derived_status
from relight.ports.store import Query
from relight.sessions.context import Context
from relight.sessions.opening import evidence_of
from relight.values.session import Identity
from relight.values.status import LIVE


def check_workspace(context: Context, found: Found, *, restore: bool) -> None:
    """Refuse a session whose files are not where they should be, before anything is changed."""
    identity = found.identity
    if not identity.workspace:
        return
    missing = lacking_roots(context, found)
    if missing:
        check_missing(context, found, missing, restore=restore)
    elif restore and restoring.snapshots_at(restoring.rows_of(context, found), restoring.position_of(found)):
        restoring.restore(context, found, choice="theirs", adopt=True, dry_run=True)
    else:
        roots = open_roots(context.workspaces(), identity, watch=False, read_only=True)
        try:
            for name, root in roots.items():
                refuse_unfinished(name, identity.workspace[name], root)
        finally:
            close_all(roots)


def check_missing(context: Context, found: Found, missing: list[str], *, restore: bool) -> None:
    """Refuse missing directories, unless they are to be created and filled from a snapshot."""
    identity = found.identity
    name = identity.name or _begins_at(found) or identity.id[:8]
    held = restoring.files_at(context, found, restoring.rows_of(context, found))
    lost = [root for root in missing if root not in held]
    if lost:
        why = f"workspace missing: {identity.workspace[lost[0]]}; no snapshot holds its files"
        hint = f"create it again: mkdir -p {shlex.quote(identity.workspace[lost[0]])}"
        raise NotResumable(name, why, hints=["take a later checkpoint" if _begins_at(found) else hint])
    if not restore and not is_unstarted_fork(context, found):
        hints = [f"restore its files: relight resume {name} --restore"]
        raise NotResumable(name, f"workspace missing: {identity.workspace[missing[0]]}", hints=hints)
    for root in missing:
        path = identity.workspace[root]
        if os.path.lexists(path) and not os.path.isdir(path):
            raise WorkspaceUnusable(root, path, "a file that is not a directory is in its place")


def _begins_at(found: Found) -> str | None:
    """The checkpoint that a fork without a step of its own is made from: it may exist only while it is being begun, so
    that its own id would lead nowhere."""
    parent = found.identity.parent
    return (
        f"{parent.session[:12]}@{parent.seq}" if parent is not None and found.whole_head().seq == parent.seq else None
    )


def lacking_roots(context: Context, found: Found) -> list[str]:
    """Names of roots whose directory is missing, or was left half made by a killed start."""
    begun, identity = Directories(context).has_begun, found.identity
    return [
        name
        for name, path in identity.workspace.items()
        if not os.path.isdir(path) or context.workspaces().is_unfinished(path, begun)
    ]


def is_unstarted_fork(context: Context, found: Found) -> bool:
    """Whether it is a fork that never ran, with directories of its own, which its first start creates."""
    parent = found.identity.parent
    if parent is None or found.whole_head().attempt:
        return False
    record = context.store.find(parent.session)
    theirs = set(record.identity.workspace.values()) if record is not None else set()
    return not theirs & set(found.identity.workspace.values())


@contextmanager
def first_directories(context: Context, found: Found) -> Iterator[None]:
    """While a session is opened: create and fill the directories of a fork that never ran; remove them if the
    opening fails. NotResumable if nothing was captured to fill them with."""
    made = Directories(context)
    if found.identity.workspace and is_unstarted_fork(context, found):
        missing = lacking_roots(context, found)
        if missing:
            check_missing(context, found, missing, restore=True)
            held = restoring.files_at(context, found, restoring.rows_of(context, found))
            made.fill(found, {root: held[root] for root in missing})
    try:
        yield
    except BaseException:
        made.discard()
        raise
    made.keep()


def refuse_shared(context: Context, identity: Identity) -> None:
    """Refuse to restore files in a directory where another session works."""
    for record in every_session(context.store, Query(statuses=LIVE)):
        head, other = record.head, record.identity
        if head is None or other.id == identity.id or derived_status(head, evidence_of(context, head))[0] not in LIVE:
            continue
        for path in other.workspace.values():
            if any(_overlap(path, mine) for mine in identity.workspace.values()):
                name = other.name or other.id[:8]
                hints = [f"stop it first: relight stop {name}", "or use another directory"]
                raise NotResumable(name, f"it runs in {path}, whose files would be restored", hints=hints)


def _overlap(one: str, other: str) -> bool:
    return f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")


def bring_back(context: Context, found: Found) -> FilesReport | None:
    """Create missing directories and restore what they lack; None if nothing was ever captured."""
    rows = restoring.rows_of(context, found)
    if not restoring.snapshots_at(rows, restoring.position_of(found)):
        return None
    missing = [name for name, path in found.identity.workspace.items() if not os.path.isdir(path)]
    for name in missing:
        context.workspaces().prepare(found.identity.workspace[name], name=name)
    planned = restoring.restore(context, found, choice="theirs", adopt=True, dry_run=True)
    if not missing and all(plan.is_empty for plan in planned.plans.values()):
        return planned
    return restoring.restore(context, found, choice="theirs", adopt=True)
