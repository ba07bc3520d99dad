"""File system helpers of the pool: translated errors, free space, segment locks."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from relight.errors import RelightError, StoreFull, StoreReadOnly, StoreUnavailable

_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_FORBIDDEN: Final = (errno.EROFS, errno.EACCES, errno.EPERM)


@contextmanager
def translate_errors(where: Path) -> Iterator[None]:
    """Translate OSError to store errors."""
    try:
        yield
    except OSError as error:
        raise store_error(error, where) from error


def store_error(error: OSError, where: Path) -> RelightError:
    """The store error for an OSError."""
    if error.errno in _FULL:
        return StoreFull(str(where))
    if error.errno in _FORBIDDEN:
        return StoreReadOnly(str(where))
    return StoreUnavailable(f"{where}: {error.strerror or error}")


def free_bytes(fd: int) -> int:
    """Free space for an unprivileged user on the file system of this descriptor."""
    found = os.fstatvfs(fd)
    return found.f_bavail * found.f_frsize


def lock(fd: int) -> None:
    """Lock a segment for writing. Blocks only for a moment: a process that checks `try_lock` unlocks it at once. The
    lock ends with its process."""
    fcntl.flock(fd, fcntl.LOCK_EX)


def try_lock(fd: int) -> bool:
    """Lock a segment for writing, if it is not locked."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def unlock(fd: int) -> None:
    fcntl.flock(fd, fcntl.LOCK_UN)
