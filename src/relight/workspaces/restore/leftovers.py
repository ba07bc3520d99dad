"""Cleans up temporary files of a killed restore. Their names contain the restore's id and the index of their path.

Content that a snapshot has is deleted; so is a file that was not complete yet. Unknown content was written by another
process during a swap, and is saved under a name of its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Final

from relight.system.durable import sync_file
from relight.workspaces.changes.classify import TEMPORARY, join
from relight.workspaces.restore.openat import open_directory, rename_noreplace

SAVED_SUFFIX: Final = b".relight-saved-"
MAX_SAVED_NAMES: Final = 1000
PARTIAL: Final = b"p"
"""suffix of a temporary file that is not complete yet: ours, whatever it contains"""

IsKnown = Callable[[bytes, int, bytes], bool]
"""(path, directory descriptor, temporary name): does a snapshot have this content for the path?"""


def clear_up(root_fd: int, restore: str, order: Sequence[bytes], is_known: IsKnown) -> tuple[bytes, ...]:
    """Remove the temporary files of an interrupted restore; returns the paths under which unknown content was saved."""
    prefix = TEMPORARY + restore.encode() + b"-"
    saved: list[bytes] = []
    for parent in sorted({path.rpartition(b"/")[0] for path in order}):
        try:
            fd = open_directory(root_fd, parent)
        except OSError:
            continue
        try:
            for name in map(os.fsencode, os.listdir(fd)):
                if name.startswith(prefix):
                    saved += _remove_or_save(fd, parent, name, name.removeprefix(prefix), order, is_known)
            sync_file(fd)
        finally:
            os.close(fd)
    return tuple(saved)


def _remove_or_save(
    fd: int, parent: bytes, name: bytes, number: bytes, order: Sequence[bytes], is_known: IsKnown
) -> list[bytes]:
    """Handle one temporary file; returns the path it was saved under, if it was."""
    if number.endswith(PARTIAL):
        os.unlink(name, dir_fd=fd)
        return []
    if not number.isdigit() or int(number) >= len(order):
        return []
    path = order[int(number)]
    if is_known(path, fd, name):
        os.unlink(name, dir_fd=fd)
        return []
    return [_save(fd, parent, name, path.rpartition(b"/")[2])]


def _save(fd: int, parent: bytes, temporary: bytes, name: bytes) -> bytes:
    """Rename it to its own name if that is free, else to a name beside it."""
    for number in range(MAX_SAVED_NAMES):
        wanted = name if number == 0 else name[:200] + SAVED_SUFFIX + str(number).encode()
        try:
            rename_noreplace(fd, temporary, wanted)
            return join(parent, wanted)
        except FileExistsError:
            continue
    return join(parent, temporary)
