"""What a resume looks at before the program is started: is its workspace there, and can it be put back?

A missing workspace is refused before anything is touched. Where the user asks for it, it is made anew and filled from
the checkpoint's snapshot, as one restore of the undo log; what stands in the directory already is left as it is.
"""

from __future__ import annotations

from relight.engine import restoring
from relight.engine.context import Context
from relight.engine.files import close_all, open_roots
from relight.engine.reading import Found
from relight.engine.surveying import missing_roots
from relight.engine.undoable import FilesReport
from relight.errors import NotResumable


def check_workspace(context: Context, found: Found, *, restore: bool) -> None:
    """Refuse, before anything is touched, a session whose files are not where they should be."""
    identity = found.identity
    if not identity.workspace:
        return
    name = identity.name or identity.id[:8]
    missing = missing_roots(identity)
    if missing or restore:
        held = restoring.snapshots_at(restoring.rows_of(context, found), restoring.position_of(found))
        lost = [path for root, path in identity.workspace.items() if path in missing and root not in held]
        if lost:
            raise NotResumable(
                name, f"workspace missing: {lost[0]}; no snapshot holds its files", hints=["make it again"]
            )
        if missing and not restore:
            hints = [f"put its files back, as they were captured: relight resume {name} --restore"]
            raise NotResumable(name, f"workspace missing: {missing[0]}", hints=hints)
        return
    close_all(open_roots(context.workspaces(), identity, watch=False, look_only=True))


def bring_back(context: Context, found: Found) -> FilesReport | None:
    """Make missing directories and put back what they lack; None where nothing was ever captured."""
    rows = restoring.rows_of(context, found)
    if not restoring.snapshots_at(rows, restoring.position_of(found)):
        return None
    missing = missing_roots(found.identity)
    for name, path in found.identity.workspace.items():
        if path in missing:
            context.workspaces().prepare(path, name=name)
    planned = restoring.restore(context, found, choice="theirs", adopt=True, dry_run=True)
    if not missing and all(plan.is_empty for plan in planned.plans.values()):
        return planned
    return restoring.restore(context, found, choice="theirs", adopt=True)
