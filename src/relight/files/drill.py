"""Restore drill: restores a checkpoint into an empty directory and compares it there.

It proves what a digest alone does not: that conversation and files can be restored. The session, its directory and its
snapshots are not touched. Files are streamed and the bytes written are counted, because an imported bundle may declare
sizes that are too small.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec

from relight.errors import RelightError
from relight.files.restore import position_of, rows_of, snapshots_at
from relight.history.loading import Found, load
from relight.ports.workspace import Content
from relight.sessions.context import Context
from relight.values.snapshot import Entry

MAX_NAMES: Final = 1_000_000
"""names restored in one drill at most"""
_READ_BYTES: Final = 1024 * 1024


class Drilled(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a drill."""

    session: str
    files: int
    size_bytes: int
    trouble: str | None = None
    """why not everything could be restored"""


class _TooLarge(Exception):
    """The checkpoint exceeds the bounds of this drill."""


class DrillBudget:
    """What is left of the bounds, and what was restored."""

    def __init__(self, most_bytes: int) -> None:
        self._max_bytes, self._names = most_bytes, 0
        self.files = self.size_bytes = 0

    def name(self) -> None:
        self._names += 1
        if self._names > MAX_NAMES:
            raise _TooLarge

    def write(self, size_bytes: int) -> None:
        self.size_bytes += size_bytes
        if self.size_bytes > self._max_bytes:
            raise _TooLarge


def drill(context: Context, found: Found, directory: Path, *, most_bytes: int) -> Drilled | None:
    """Restore a checkpoint below a directory; None if it is larger than so many bytes."""
    session, room = found.identity.id, DrillBudget(most_bytes)
    try:
        load(context.store, found)
        targets = snapshots_at(rows_of(context, found), position_of(found))
        for number, (name, snapshot) in enumerate(sorted(targets.items())):
            content = context.workspaces().content(found.identity.pools[name])
            try:
                if _declared_bytes(content, snapshot, room) > most_bytes:
                    return None
                restore_into(content, snapshot, directory / str(number), room)
            finally:
                content.close()
    except _TooLarge:
        return None
    except (RelightError, OSError) as error:
        trouble = str(error) or type(error).__name__
        return Drilled(session=session, files=room.files, size_bytes=room.size_bytes, trouble=trouble)
    return Drilled(session=session, files=room.files, size_bytes=room.size_bytes)


def _declared_bytes(content: Content, snapshot: str, room: DrillBudget) -> int:
    """The total size that the files declare, so that one that declares too much costs nothing."""
    said = 0
    for _, entry in content.walk(snapshot):
        room.name()
        said += entry.size_bytes if entry.kind in ("file", "big") else 0
    return said


def restore_into(content: Content, snapshot: str, root: Path, room: DrillBudget) -> None:
    """Files first, then links, so that nothing is written through a link; each is compared with what was captured."""
    root.mkdir(parents=True)
    for kinds in (("file", "big"), ("link",)):
        for path, entry in content.walk(snapshot):
            if entry.kind in kinds:
                target = os.path.join(os.fsencode(root), path)
                os.makedirs(os.path.dirname(target), exist_ok=True)
                if not (_linked(target, entry) if entry.kind == "link" else _written(content, target, entry, room)):
                    raise OSError(f"{os.fsdecode(path)} did not come back as it was captured")
                room.files += 1


def _linked(target: bytes, entry: Entry) -> bool:
    os.symlink(entry.ref, target)
    return os.readlink(target) == entry.ref


def _written(content: Content, target: bytes, entry: Entry, room: DrillBudget) -> bool:
    """Whether the file on disk is what was written, and that what was captured."""
    wanted, size = sha256(), 0
    with open(target, "xb") as file:
        for piece in content.pieces(entry):
            room.write(len(piece))
            wanted.update(piece)
            size += len(piece)
            file.write(piece)
    back = sha256()
    with open(target, "rb") as file:
        for piece in _pieces_of(file.fileno()):
            back.update(piece)
    captured = entry.kind != "file" or wanted.digest() == entry.ref
    return captured and back.digest() == wanted.digest() and size == entry.size_bytes


def _pieces_of(fd: int) -> Iterator[bytes]:
    while piece := os.read(fd, _READ_BYTES):
        yield piece
