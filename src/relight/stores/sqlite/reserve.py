"""A file beside the database that only holds disk space, so that sessions can be removed when the disk is full.

A removal needs space itself: its transaction goes into the write-ahead log before anything is freed. When the disk is
full, the removal deletes this file, and afterwards gives the space of the removed sessions back to the disk (`scrub`).
The next writer that finds room makes the file again. It is a convenience and never the source of truth: without it, a
removal on a full disk is refused as any other write is.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from relight.stores.sqlite.connection.files import FILE_MODE

RESERVE_BYTES: Final = 4 * 1024 * 1024
"""the log of a removal is 2 % of a session with large messages, and three quarters of one with very small ones"""
FROM_BYTES: Final = 8 * 1024 * 1024
"""a smaller database has no reserve: removing its sessions would free little"""
_BLOCK: Final = 4096
_MIN_FREE: Final = 16
"""it is made only if so many of it would fit: on a disk that is almost full, others need the space more"""


def reserve_path(path: Path) -> Path:
    """The reserve of a database file."""
    return path.with_name(path.name + "-reserve")


def make_reserve(path: Path, *, again: bool = False) -> None:
    """Allocate the reserve, if it is not there and there is enough room; `again`: as much of it as fits, because it was
    there before. Failing is no error: the store works without."""
    try:
        found = os.statvfs(path.parent)
        room = found.f_bavail * found.f_frsize
        if room < (_BLOCK if again else _MIN_FREE * RESERVE_BYTES):
            return
        fd = os.open(reserve_path(path), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    except OSError:
        return
    try:
        _allocate(fd, min(RESERVE_BYTES, room // _BLOCK * _BLOCK))
    except OSError:
        release_reserve(path)
    finally:
        os.close(fd)


def _allocate(fd: int, size: int) -> None:
    """Real blocks: a sparse file would reserve nothing."""
    written = os.fstat(fd).st_size
    if hasattr(os, "posix_fallocate") and written < size:
        os.posix_fallocate(fd, written, size - written)
        return
    while written < size:
        written += os.pwrite(fd, bytes(size - written), written)


def release_reserve(path: Path) -> bool:
    """Delete the reserve; whether this freed space."""
    try:
        reserve_path(path).unlink()
    except OSError:
        return False
    return True
