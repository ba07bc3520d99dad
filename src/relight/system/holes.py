"""Giving the space of a part of a file back to the disk, where the kernel and the file system can."""

from __future__ import annotations

import ctypes
from typing import Final

from relight.system.platform import Platform, this_platform

_KEEP_SIZE: Final = 1
_PUNCH_HOLE: Final = 2


def punch_hole(fd: int, offset: int, length: int, platform: Platform | None = None) -> bool:
    """Free the blocks of this part, which then reads as zeros; the file keeps its size. False: nothing was done."""
    if not (platform or this_platform()).is_linux:
        return False
    try:
        fallocate = ctypes.CDLL(None).fallocate64
    except (OSError, AttributeError):  # another C library
        return False
    given = (ctypes.c_int(fd), ctypes.c_int(_KEEP_SIZE | _PUNCH_HOLE), ctypes.c_int64(offset), ctypes.c_int64(length))
    return bool(fallocate(*given) == 0)
