"""Giving the space of a part of a file back to the disk, where the kernel and the file system can."""

from __future__ import annotations

import ctypes
import os
from typing import Final

from relight.system.platform import PROC, this_platform

_KEEP_SIZE: Final = 1
_PUNCH_HOLE: Final = 2


def punch_hole(fd: int, offset: int, length: int) -> bool:
    """Free the blocks of this part, which then reads as zeros; the file keeps its size. False: nothing was done."""
    if not this_platform().is_linux:
        return False
    try:
        fallocate = ctypes.CDLL(None).fallocate64
    except (OSError, AttributeError):  # another C library
        return False
    given = (ctypes.c_int(fd), ctypes.c_int(_KEEP_SIZE | _PUNCH_HOLE), ctypes.c_int64(offset), ctypes.c_int64(length))
    return bool(fallocate(*given) == 0)


def writable_descriptor(where: str) -> int | None:
    """A descriptor that this process has open for writing on the file; None where the system does not list them."""
    try:
        wanted, names = os.stat(where), os.listdir(f"{PROC}/self/fd")
    except OSError:
        return None
    for name in names:
        try:
            found = os.stat(f"{PROC}/self/fd/{name}")
            if (found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino) and _is_writable(name):
                return int(name)
        except OSError:
            continue  # closed meanwhile, such as the one that listed them
    return None


def _is_writable(name: str) -> bool:
    with open(f"{PROC}/self/fdinfo/{name}", encoding="ascii") as info:
        flags = next((int(line.split()[1], 8) for line in info if line.startswith("flags:")), os.O_RDONLY)
    return flags & os.O_ACCMODE != os.O_RDONLY
