"""A restore drill: what a session's checkpoint holds is brought back into an empty directory, and compared there.

It proves what a digest alone does not: that conversation and files come back when they are wanted. Nothing of the
session, its directory or its captures is touched.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

import msgspec

from relight.engine.context import Context
from relight.engine.reading import Found, load
from relight.engine.restoring import position_of, rows_of, snapshots_at
from relight.errors import RelightError
from relight.model.snapshot import Entry
from relight.ports.workspace import Content


class Drilled(msgspec.Struct, frozen=True, kw_only=True):
    """What came back."""

    session: str
    files: int
    size_bytes: int
    trouble: str | None = None
    """why not all of it did"""


def drill(context: Context, found: Found, directory: Path, *, most_bytes: int) -> Drilled | None:
    """Bring a checkpoint back below a directory; None where that is more than so many bytes."""
    session, files, size = found.identity.id, 0, 0
    try:
        load(context.store, found)
        targets = snapshots_at(rows_of(context, found), position_of(found))
        for place, (name, snapshot) in enumerate(sorted(targets.items())):
            content = context.workspaces().content(found.identity.pools[name])
            try:
                entries = content.entries(snapshot)
                size += sum(entry.size_bytes for entry in entries.values() if entry.kind in ("file", "big"))
                if size > most_bytes:
                    return None
                files += bring_back(content, snapshot, entries, directory / str(place))
            finally:
                content.close()
    except (RelightError, OSError) as error:
        return Drilled(session=session, files=files, size_bytes=size, trouble=str(error) or type(error).__name__)
    return Drilled(session=session, files=files, size_bytes=size)


def bring_back(content: Content, snapshot: str, entries: Mapping[bytes, Entry], root: Path) -> int:
    """Files, then links, so that nothing is written through one; each compared with what was captured."""
    root.mkdir(parents=True)
    number = 0
    for path, entry in sorted(entries.items(), key=lambda one: (one[1].kind == "link", one[0])):
        if entry.kind not in ("file", "big", "link"):
            continue
        target = os.path.join(os.fsencode(root), path)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        data = content.read(snapshot, path)
        if entry.kind == "link":
            os.symlink(data, target)
            back = os.readlink(target)
        else:
            with open(target, "xb") as file:
                file.write(data)
            with open(target, "rb") as file:
                back = file.read()
        captured = entry.kind != "file" or sha256(back).digest() == entry.ref
        if back != data or not captured or (entry.kind != "link" and len(back) != entry.size_bytes):
            raise OSError(f"{os.fsdecode(path)} did not come back as it was captured")
        number += 1
    return number
