"""Restore, rewind, undo and redo: what a checkpoint holds of the files, and how it is brought back.

Each is one operation of the undo log (operation.py). A rewind of files and conversation is a single operation, whose
last step is the rewind.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from relight.errors import Conflict, Corrupt, NotFound, UsageError
from relight.files.capture import named_roots
from relight.files.operation import FileOperation, FilesReport
from relight.history.events import Event, history
from relight.history.loading import Found, chain_of, step_at
from relight.journal.codec import decode_changes
from relight.journal.files.undo_log import Operation, next_redo, next_undo, operations
from relight.journal.lineage import named_by, stretches, visible
from relight.ports.store import CheckpointRow
from relight.sessions.context import Context
from relight.sessions.opening import refuse_archived
from relight.values.snapshot import Choice

_OFFER_TRIES: Final = 8
"""earlier checkpoints that are checked for whole files"""

# -- which snapshots -------------------------------------------------------------------------------------------------


def rows_of(context: Context, found: Found) -> list[CheckpointRow]:
    """All steps without bodies, including the ancestors'."""
    chain = chain_of(context.store, found.identity)
    return [
        row
        for stretch in stretches(chain, after=0, upto=found.whole_head().seq)
        for row in context.store.checkpoints(stretch.session, after=stretch.after, upto=stretch.upto)
    ]


def snapshots_at(rows: Sequence[CheckpointRow], seq: int) -> dict[str, str]:
    """Root name to the newest snapshot on the visible path to `seq`."""
    by_seq = {row.seq: row for row in rows}
    path = visible({row.seq: row.base for row in rows}, head=seq, since=0)
    held: dict[str, str] = {}
    for number in path:
        held.update(by_seq[number].snapshots)
    return held


def files_at(context: Context, found: Found, rows: Sequence[CheckpointRow]) -> dict[str, str]:
    """Like `snapshots_at` for the checkpoint of a reference, compared with what the steps themselves name.

    NotFound if its own files were deleted: those of an earlier checkpoint are not its own. Corrupt if a row names other
    snapshots than its step, which the digest covers.
    """
    seq, chain = position_of(found), chain_of(context.store, found.identity)
    name = found.identity.name or found.identity.id
    held = snapshots_at(rows, seq)
    by_seq = {row.seq: row for row in rows}
    path = visible({row.seq: row.base for row in rows}, head=seq, since=0)
    giving = {root: number for number in path for root in by_seq[number].snapshots}
    for row in [by_seq[number] for number in {*giving.values(), seq} if number in by_seq]:
        said = decode_changes(step_at(context.store, chain, row.seq).body).snapshot or {}
        if not named_by(row.snapshots, said):
            raise Corrupt("its files are not those that the step named", session=name, seq=row.seq)
        # Snapshots can be deleted from a checkpoint. Falling back to an earlier one would restore files that this
        # checkpoint never had.
        if row.seq == seq and said.keys() - row.snapshots.keys():
            before = next((one.seq for one in reversed(rows) if one.seq < seq and one.snapshots), None)
            hints = [f"the newest before it that has files: {name}@{before}"] if before is not None else []
            evidence = ["deleted with the checkpoint, or left out of a bundle; its conversation is still there"]
            raise NotFound(f"{name}@{seq}", what="snapshot of the files", evidence=evidence, hints=hints)
    return held


def position_of(found: Found) -> int:
    """The checkpoint of a reference: its seq, or the head."""
    return found.seq if found.seq is not None else found.whole_head().head


# -- restoring --------------------------------------------------------------------------------------------------------


def restore(
    context: Context,
    found: Found,
    *,
    paths: Sequence[str] = (),
    choice: Choice = "stop",
    exact: bool = False,
    dry_run: bool = False,
    adopt: bool = False,
) -> FilesReport:
    """Restore the files of a checkpoint, all or some paths. Refused while the session is owned."""
    refuse_archived(found)
    rows = rows_of(context, found)
    targets = files_at(context, found, rows)
    if not targets:
        name = found.identity.name or found.identity.id
        raise NotFound(f"{name}@{position_of(found)}", what="snapshot of the files")
    made = _make_missing(context, found, targets) if not dry_run else []
    if made and choice == "stop" and len(made) == len(targets):
        choice = "ours"  # every root is missing, so no file can be overwritten
    how: dict[str, Any] = {"choice": choice, "exact": exact, "paths": paths, "adopt": adopt or bool(made)}
    try:
        plans = FileOperation(context, found, rows, read_only=dry_run, **how)
        with plans:
            plans.make(targets)
            if dry_run:
                return FilesReport(plans=plans.plans)
            return plans.carry_out("restore", moves=False)
    except BaseException as error:
        for path in made:
            with suppress(OSError):  # not empty: the restore had begun, and is finished or undone later
                os.rmdir(path)
        if isinstance(error, Corrupt):
            raise _offering(context, found, rows, error) from None
        raise


def _make_missing(context: Context, found: Found, roots: Collection[str]) -> list[str]:
    """Create the missing root directories, empty; their paths."""
    paths = {root: path for root, path in found.identity.workspace.items() if root in roots}
    missing = {root: path for root, path in paths.items() if not os.path.lexists(path)}
    for root, path in missing.items():
        context.workspaces().prepare(path, name=root)
    return list(missing.values())


def _offering(context: Context, found: Found, rows: Sequence[CheckpointRow], error: Corrupt) -> Corrupt:
    """Damage of captured files, with the checkpoint and the newest earlier one whose files are whole."""
    name, seq = found.identity.name or found.identity.id, position_of(found)
    named = Corrupt(error.what, session=name, seq=seq)
    damaged = snapshots_at(rows, seq)
    captured = [row.seq for row in reversed(rows) if row.seq < seq and row.snapshots]
    for before in captured[:_OFFER_TRIES]:
        held = snapshots_at(rows, before)
        if held != damaged and not any(
            context.workspaces().broken(found.identity.pools[root], [snapshot])
            for root, snapshot in held.items()
            if root in found.identity.pools
        ):
            named.hints = (f"the newest whole one before it: relight restore {name}@{before}", *named.hints)
            break

    return named


def rewind(
    context: Context,
    found: Found,
    *,
    conversation: bool,
    files: bool,
    choice: Choice = "stop",
    take: Sequence[str] = (),
    again: Sequence[str] = (),
) -> FilesReport:
    """Move the head back, the files back, or both, as one operation of the undo log. `take`: files for which the
    checkpoint wins, whatever the choice for the others. `again`: effects, by call id or key, that may run again from
    there, under a new generation of their keys."""
    if found.seq is None:
        raise UsageError("a rewind needs a checkpoint", hints=["name it: SESSION@SEQ or SESSION@LABEL"])
    if again and not conversation:
        raise UsageError("again needs conversation=True: calls run again only if the conversation is rewound")
    if take and not files:
        raise UsageError("take names files, so the files must be rewound: files=True")
    refuse_archived(found)
    rows = rows_of(context, found) if files else []
    targets = files_at(context, found, rows) if files else {}
    if files and not targets:
        raise NotFound(f"{found.identity.name or found.identity.id}@{found.seq}", what="snapshot of the files")
    plans = FileOperation(context, found, rows, choice=choice, take=take)
    with plans:
        plans.make(targets)
        return plans.carry_out("rewind", moves=conversation, again=again)


def undo(context: Context, found: Found, *, redo: bool = False, choice: Choice = "stop") -> FilesReport:
    """Undo the newest rewind or restore in force; repeated, the one before it. `redo` reverts the undo."""
    refuse_archived(found)
    log = operation_log(context, found)
    operation = next_redo(log) if redo else next_undo(log)
    if operation is None:
        name = found.identity.name or found.identity.id
        what = "operation to redo" if redo else "operation to undo"
        raise NotFound(name, what=what, hints=[f"see what was done: relight undo {name} --list"])
    plans = FileOperation(context, found, rows_of(context, found) if operation.files else (), choice=choice)
    with plans:
        if redo:  # back to the files as they were before the undo
            plans.make({root: pair[0] for root, pair in operation.files.items()})
        else:
            plans.make_undo(operation)
        return plans.carry_out("redo" if redo else "undo", moves=False, of=operation)


def operation_log(context: Context, found: Found) -> list[Operation]:
    """The undo log, oldest first. A fork's log begins with the fork."""
    begins = found.identity.parent.seq if found.identity.parent is not None else 0
    return operations(map(_noted, history(context, found, after=begins)))


def _noted(event: Event) -> tuple[int, dict[str, Any]]:
    """Seq and note of a step. 0.1.0 recorded no state before a rewind, but queued only completed sessions, so it is
    inferred."""
    ended = event.note.get("operation_end")
    put_back = event.kind == "rewind" and event.status is not None and event.status["status"] == "queued"
    if not isinstance(ended, dict) or "before" in ended or ended.get("begun") is not None or not put_back:
        return event.seq, event.note
    heads = ended.get("heads")
    if not isinstance(heads, list) or not heads:
        return event.seq, event.note
    before = {"head": heads[0], "told": {"status": "completed"}}
    return event.seq, {**event.note, "operation_end": {**ended, "before": before}}


# -- where files go --------------------------------------------------------------------------------------------------


def new_roots(given: str | Mapping[str, str], roots: Mapping[str, str]) -> dict[str, str]:
    """The directory for each root of a fork: the given one for a single root, or one below it for each of several."""
    paths = {name: os.path.abspath(path) for name, path in named_roots(given).items()}
    if isinstance(given, Mapping):
        return paths
    if not roots:
        raise Conflict("the session has no workspace to put into a new directory")
    (path,) = paths.values()
    return {name: path if len(roots) == 1 else os.path.join(path, name) for name in roots}
