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
ASIDE: Final = b"o"
"""suffix of former content that was set aside where names cannot be exchanged"""

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
    number = number.removesuffix(ASIDE)
    if not number.isdigit() or int(number) >= len(order):
        return []
    path = order[int(number)]
    if is_known(path, fd, name) or _is_same_file(fd, name, path.rpartition(b"/")[2]):
        os.unlink(name, dir_fd=fd)
        return []
    return [join(parent, give_back(fd, name, path.rpartition(b"/")[2]))]


def give_back(fd: int, temporary: bytes, name: bytes) -> bytes:
    """Rename a temporary file to its own name if that is free, else to a name beside it; returns that name."""
    for number in range(MAX_SAVED_NAMES):
        wanted = name if number == 0 else name[:200] + SAVED_SUFFIX + str(number).encode()
        try:
            rename_noreplace(fd, temporary, wanted)
            return wanted
        except FileExistsError:
            continue
    return temporary


def _is_same_file(fd: int, temporary: bytes, name: bytes) -> bool:
    """Whether both names lead to one file: killed between link and unlink, where a rename takes the two."""
    try:
        found = [os.stat(one, dir_fd=fd, follow_symlinks=False) for one in (temporary, name)]
    except FileNotFoundError:
        return False
    return found[0].st_ino == found[1].st_ino
