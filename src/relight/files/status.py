"""Status of a session's files. Read-only: nothing is captured or written.

Three separate questions, because their costs differ: since when files are captured (from the rows), what changed since
the first capture (reads content), how the disk differs now (walks the directory).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

import msgspec

from relight.errors import NotFound, RelightError
from relight.files.capture import close_all, open_roots
from relight.files.operation import newest_of
from relight.files.restore import position_of, rows_of, snapshots_at
from relight.history.events import history
from relight.history.loading import Found
from relight.journal.lineage import visible
from relight.ports.store import CheckpointRow
from relight.ports.workspace import Content
from relight.sessions.context import Context
from relight.values.info import Differing, FilesState, LeftOut
from relight.values.session import Identity
from relight.values.snapshot import Change

NOTE: Final = "files_not_captured"
_MAX_SCANNED_STEPS: Final = 200
"""steps that are searched for the last failed capture"""
_COUNT_FILES: Final = 200
_COUNT_BYTES: Final = 2_000_000
"""above this, lines are not counted"""


def files_status(context: Context, found: Found, *, disk: bool = False, start: bool = False) -> FilesState | None:
    """Files of a checkpoint, optionally compared with the disk and with the first capture; None without a workspace."""
    identity = found.identity
    if not identity.workspace:
        return None
    state = FilesState(workspace=identity.workspace, missing=missing_roots(identity))
    try:
        rows = rows_of(context, found)
        state = _captured(context, found, rows, state)
        if start and state.captured_at is not None:
            state = _since_start(context, found, rows, state)
        if disk and state.captured_at is not None and not state.missing:
            state = msgspec.structs.replace(state, differ=_against_disk(context, found, rows))
    except RelightError as error:  # reported in the status; must not hide everything else that is shown
        return msgspec.structs.replace(state, trouble=str(error))
    return state


def missing_roots(identity: Identity) -> list[str]:
    """The directories that do not exist."""
    return [path for path in identity.workspace.values() if not os.path.isdir(path)]


def _path(rows: Sequence[CheckpointRow], seq: int) -> list[CheckpointRow]:
    by_seq = {row.seq: row for row in rows}
    return [by_seq[number] for number in visible({row.seq: row.base for row in rows}, head=seq, since=0)]


def _captured(context: Context, found: Found, rows: Sequence[CheckpointRow], state: FilesState) -> FilesState:
    seq = position_of(found)
    captured_at = max((row.seq for row in _path(rows, seq) if row.snapshots), default=None)
    after = max(captured_at or 0, seq - _MAX_SCANNED_STEPS)
    why = None
    for event in history(context, found, after=after):
        if event.seq <= seq and event.note.get(NOTE):
            why = f"not captured at @{event.seq}: {event.note[NOTE]}"
    return msgspec.structs.replace(state, captured_at=captured_at, trouble=why)


def _since_start(context: Context, found: Found, rows: Sequence[CheckpointRow], state: FilesState) -> FilesState:
    """Changes from the first snapshot on the path to the newest; in lines too, if that is cheap."""
    path = _path(rows, position_of(found))
    since = next(row.seq for row in path if row.snapshots)
    first: dict[str, str] = {}
    for row in path:
        first = {**row.snapshots, **first}
    last = snapshots_at(rows, position_of(found))
    changed, added, removed, left = 0, 0, 0, list[LeftOut]()
    countable = True
    for name, pool in found.identity.pools.items():
        if name not in last:
            continue
        content = context.workspaces().content(pool)
        try:
            changes = [one for one in content.diff(first[name], last[name]) if _is_file(one)]
            changed += len(changes)
            entries = [entry for one in changes for entry in (one.before, one.after) if entry is not None]
            countable &= len(changes) <= _COUNT_FILES and sum(entry.size_bytes for entry in entries) <= _COUNT_BYTES
            if countable and changes:
                plus, minus = _lines(name, content, first[name], last[name])
                added, removed = added + plus, removed + minus
            left += [
                LeftOut(root=name, path=os.fsdecode(one.path), reason=one.reason, size_bytes=one.size_bytes)
                for one in content.skipped(last[name])
            ]
        finally:
            content.close()
    return msgspec.structs.replace(
        state,
        since=since,
        changed=changed,
        lines_added=added if countable else None,
        lines_removed=removed if countable else None,
        left_out=left,
    )


def _is_file(change: Change) -> bool:
    entry = change.after or change.before
    return entry is not None and entry.kind in ("file", "big", "link")


def _lines(name: str, content: Content, before: str, after: str) -> tuple[int, int]:
    from relight.files.diff import root_diff  # imported late: it imports difflib

    found = root_diff(name, content, before, after)
    return sum(one.lines_added or 0 for one in found), sum(one.lines_removed or 0 for one in found)


def _against_disk(context: Context, found: Found, rows: Sequence[CheckpointRow]) -> list[Differing]:
    held = snapshots_at(rows, position_of(found))
    last = newest_of(rows)
    roots = open_roots(context.workspaces(), found.identity, watch=False, read_only=True)
    differ: list[Differing] = []
    try:
        for name, snapshot in held.items():
            if name not in roots:
                raise NotFound(name, what="workspace root")
            now = roots[name].snapshot().id
            # Compared with the session's newest snapshot, not with the checkpoint: what differs from it was changed by
            # others.
            later = {one.path for one in roots[name].diff(last[name], now)}
            differ += [
                Differing(root=name, path=os.fsdecode(one.path), what=one.what, later=one.path in later)
                for one in roots[name].diff(snapshot, now)
                if _is_file(one)
            ]
    finally:
        close_all(roots)
    return differ
