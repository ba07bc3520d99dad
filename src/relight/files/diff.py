"""`diff`: which files differ between two checkpoints, or between a checkpoint and the disk, and how.

Text is compared line by line up to a size; anything else is listed with its sizes. What a snapshot left out is listed
with its reason, because a list that hides something reads as data loss.
"""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Iterator, Mapping
from typing import Final, Literal

import msgspec

from relight.errors import Conflict, NotFound
from relight.files.capture import close_all, open_roots
from relight.files.restore import files_at, position_of, rows_of
from relight.history.loading import Found
from relight.journal.files.restore_plan import may_run_later
from relight.ports.workspace import Content, Workspace
from relight.sessions.context import Context
from relight.values.session import Identity
from relight.values.snapshot import Change, Entry

TEXT_MAX_BYTES: Final = 1024 * 1024
TEXTS_MAX_BYTES: Final = 64 * 1024 * 1024
"""total size of texts in one comparison; further files are listed with their sizes only"""


Holder = Content | Workspace
"""an object that can compare and read snapshots"""


class HeldFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file or link that a checkpoint holds."""

    root: str
    path: str
    kind: str
    """file or link"""
    size_bytes: int
    mode: int
    """permission bits"""


class FileDiff(msgspec.Struct, frozen=True, kw_only=True):
    """One file that differs, or was left out of a snapshot."""

    root: str
    path: str
    what: Literal["added", "changed", "deleted", "left out"]
    kind: str
    """file, link, dir, or why it was left out"""
    size_before: int = 0
    size_after: int = 0
    lines_added: int | None = None
    lines_removed: int | None = None
    text: str | None = None
    """a unified diff; None if it is not text, or too large"""
    may_run_later: bool = False
    """some tool executes this file on its own"""


def diff(context: Context, a: Found, b: Found | None) -> list[FileDiff]:
    """From `a` to `b`, or to the disk now. Both must be in one fork tree: they share the pool."""
    if b is not None and a.identity.pools != b.identity.pools:
        raise Conflict("the two sessions keep their files in different pools and cannot be compared")
    before = held_at(context, a)
    if b is not None:
        return _between(context, a.identity, before, held_at(context, b))
    roots = open_roots(context.workspaces(), a.identity, watch=False, read_only=True)
    try:
        found: list[FileDiff] = []
        for name, root in roots.items():
            if name in before:
                found += root_diff(name, root, before[name], root.snapshot().id)
        return found
    finally:
        close_all(roots)


def file_at(context: Context, found: Found, root: str, path: str) -> bytes:
    """The content of one captured file at a checkpoint. NotFound if it holds none."""
    held = held_at(context, found)
    if root not in held or root not in found.identity.pools:
        raise NotFound(root, what="workspace root")
    content = context.workspaces().content(found.identity.pools[root])
    try:
        return content.read(held[root], os.fsencode(path))
    finally:
        content.close()


def files_held(context: Context, found: Found) -> Iterator[HeldFile]:
    """The files and links of a checkpoint, by root and path, in bounded memory. NotFound if nothing was captured."""
    for root, snapshot in sorted(held_at(context, found).items()):
        content = context.workspaces().content(found.identity.pools[root])
        try:
            for path, entry in content.walk(snapshot):
                if entry.kind in ("file", "big", "link"):
                    kind, name = "link" if entry.kind == "link" else "file", os.fsdecode(path)
                    yield HeldFile(root=root, path=name, kind=kind, size_bytes=entry.size_bytes, mode=entry.mode)
        finally:
            content.close()


def held_at(context: Context, found: Found) -> dict[str, str]:
    """Root name to snapshot at a checkpoint; before the first capture, the first one. NotFound if there is none."""
    rows = rows_of(context, found)
    first: dict[str, str] = {}
    for row in rows:
        first = {**row.snapshots, **first}
    if not first:
        name = found.identity.name or found.identity.id
        evidence = ["no step of it has captured files"]
        raise NotFound(f"{name}@{position_of(found)}", what="snapshot of the files", evidence=evidence)
    return {**first, **files_at(context, found, rows)}


def _between(
    context: Context, identity: Identity, before: Mapping[str, str], after: Mapping[str, str]
) -> list[FileDiff]:
    """Two snapshots of the same pools; the directories need not exist any more."""
    found: list[FileDiff] = []
    for name in sorted(before.keys() & after.keys() & identity.pools.keys()):
        content = context.workspaces().content(identity.pools[name])
        try:
            found += root_diff(name, content, before[name], after[name])
        finally:
            content.close()
    return found


def root_diff(name: str, content: Holder, before: str, after: str) -> list[FileDiff]:
    """One root, from one snapshot to another; what the later one left out comes last."""
    # The budget is for all texts of the comparison, so that a rewritten tree cannot fill the memory; the list stays
    # complete.
    changed, room = [], TEXTS_MAX_BYTES
    for change in content.diff(before, after):
        one = _file_diff(name, content, before, after, change, with_text=room > 0)
        changed.append(one)
        room -= len(one.text or "")
    left = [
        FileDiff(root=name, path=shown(one.path), what="left out", kind=one.reason, size_after=one.size_bytes)
        for one in content.skipped(after)
        if one.reason != "ignored"
    ]
    return [one for one in changed if one.kind != "skip"] + left


def _file_diff(
    name: str, content: Holder, before: str, after: str, change: Change, *, with_text: bool = True
) -> FileDiff:
    entry = change.after or change.before
    assert entry is not None
    old = _text(content, before, change.path, change.before) if with_text else None
    new = _text(content, after, change.path, change.after) if with_text else None
    lines = _unified(shown(change.path), old, new) if old is not None and new is not None else None
    return FileDiff(
        root=name,
        path=shown(change.path),
        what=change.what,
        kind="file" if entry.kind == "big" else entry.kind,
        size_before=change.before.size_bytes if change.before is not None else 0,
        size_after=change.after.size_bytes if change.after is not None else 0,
        lines_added=_count(lines, "+") if lines is not None else None,
        lines_removed=_count(lines, "-") if lines is not None else None,
        text="".join(lines) if lines is not None else None,
        may_run_later=may_run_later(change.path),
    )


def _text(content: Holder, snapshot: str, path: bytes, entry: Entry | None) -> str | None:
    """The file's text; empty if it does not exist; None if it is not text."""
    if entry is None or entry.kind == "dir":
        return ""
    if entry.kind not in ("file", "link") or entry.size_bytes > TEXT_MAX_BYTES:
        return None
    data = content.read(snapshot, path)
    if b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _unified(path: str, old: str, new: str) -> list[str]:
    before, after = _lines_of(old), _lines_of(new)
    lines = difflib.unified_diff(before, after, _quoted(f"a/{path}"), _quoted(f"b/{path}"), n=3)
    return [line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines]


def _lines_of(text: str) -> list[str]:
    """Split at line feeds only: `splitlines` also breaks at characters that are part of a line."""
    *whole, rest = text.split("\n")
    return [f"{line}\n" for line in whole] + ([rest] if rest else [])


def _quoted(name: str) -> str:
    """Quote and escape like git a name that could be read as another line of the diff."""
    return name if name.isprintable() and '"' not in name else json.dumps(name)


def _count(lines: list[str], mark: str) -> int:
    return sum(1 for line in lines[2:] if line.startswith(mark))


def shown(path: bytes) -> str:
    """A path as text; bytes that are not UTF-8 are escaped, so that it still leads to the file."""
    return os.fsdecode(path)
