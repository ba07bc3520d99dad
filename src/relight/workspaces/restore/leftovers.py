"""End what a killed restore left in the tree: temporary files named by the restore and the place of their path in it.

Known content goes, since a snapshot holds it; a file that was not whole yet is ours and goes; unknown content was
written by somebody in the very moment of a swap, and is kept under a name of its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Final

from relight.workspaces.changes.classify import TEMPORARY, join
from relight.workspaces.restore.openat import open_directory, place

ASIDE: Final = b".relight-saved-"
MAX_ASIDE: Final = 1000
PARTIAL: Final = b"p"
"""ends the name of a temporary file that is not whole yet: ours, whatever it holds"""

IsKnown = Callable[[bytes, int, bytes], bool]
"""(path, directory descriptor, temporary name): does a snapshot hold that content for the path?"""


def clear_up(root_fd: int, restore: str, order: Sequence[bytes], is_known: IsKnown) -> tuple[bytes, ...]:
    """End the temporary files of an interrupted restore; the names under which unknown content was kept."""
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
                    saved += _end(fd, parent, name, name.removeprefix(prefix), order, is_known)
            os.fsync(fd)
        finally:
            os.close(fd)
    return tuple(saved)


def _end(fd: int, parent: bytes, name: bytes, number: bytes, order: Sequence[bytes], is_known: IsKnown) -> list[bytes]:
    """One temporary file; the name it was kept under, if it was."""
    if number.endswith(PARTIAL):
        os.unlink(name, dir_fd=fd)
        return []
    if not number.isdigit() or int(number) >= len(order):
        return []
    path = order[int(number)]
    if is_known(path, fd, name):
        os.unlink(name, dir_fd=fd)
        return []
    return [_set_aside(fd, parent, name, path.rpartition(b"/")[2])]


def _set_aside(fd: int, parent: bytes, temporary: bytes, name: bytes) -> bytes:
    """Back under its own name if that is free, else beside it."""
    for number in range(MAX_ASIDE):
        wanted = name if number == 0 else name[:200] + ASIDE + str(number).encode()
        try:
            place(fd, temporary, wanted)
            return join(parent, wanted)
        except FileExistsError:
            continue
    return join(parent, temporary)
