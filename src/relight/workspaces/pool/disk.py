"""The disk under the pool: its errors in our words, and directory entries that survive a power cut."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from relight.errors import RelightError, StoreFull, StoreReadOnly, StoreUnavailable

_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_FORBIDDEN: Final = (errno.EROFS, errno.EACCES, errno.EPERM)


@contextmanager
def wrapped(where: Path) -> Iterator[None]:
    """The system's errors become ours."""
    try:
        yield
    except OSError as error:
        raise translate(error, where) from error


def translate(error: OSError, where: Path) -> RelightError:
    """What the error means for whoever keeps content here."""
    if error.errno in _FULL:
        return StoreFull(str(where))
    if error.errno in _FORBIDDEN:
        return StoreReadOnly(str(where))
    return StoreUnavailable(f"{where}: {error.strerror or error}")


def sync_directory(path: Path) -> None:
    """The names in it survive a power cut."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def free_bytes(fd: int) -> int:
    """What an ordinary user may still write to the file system of this descriptor."""
    found = os.fstatvfs(fd)
    return found.f_bavail * found.f_frsize
