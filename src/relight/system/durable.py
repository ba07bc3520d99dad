"""Durability as the platform defines it: what has to be called so that written bytes survive a power cut.

On macOS fsync hands the bytes to the drive and returns; only fcntl(F_FULLFSYNC) waits until the drive has stored them.
Everywhere else fsync does both. A file system without F_FULLFSYNC (a network one) gets fsync, the most it offers. Any
other error is raised and not retried in a weaker form: the kernel may have dropped the pages, and would report success.

`Written`: a file that is to be removed again only as it was written.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

try:
    import fcntl
except ImportError:  # no POSIX system: importing relight must still work, so that it can say so
    fcntl = None  # type: ignore[assignment]

_NOT_OFFERED: Final = frozenset({errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOTTY, errno.EINVAL, errno.ENOSYS})

FullSync = Callable[[int], object]


def full_sync_of(control: Any) -> FullSync | None:
    """F_FULLFSYNC of a module like `fcntl`; None on a platform that has none and needs none."""
    command = getattr(control, "F_FULLFSYNC", None)
    return None if command is None else lambda fd: control.fcntl(fd, command)


_full_sync: Final = full_sync_of(fcntl)
NEEDS_FULL_SYNC: Final = _full_sync is not None
"""whether SQLite must be told too: PRAGMA fullfsync and checkpoint_fullfsync"""


def sync_file(fd: int, full: FullSync | None = _full_sync) -> None:
    """Make a file or directory durable, its metadata included."""
    if full is None or not _synced_fully(fd, full):
        os.fsync(fd)


def sync_data(fd: int, full: FullSync | None = _full_sync) -> None:
    """Make a file's content and size durable; its times may be older after a power cut."""
    if full is not None:
        sync_file(fd, full)
    elif hasattr(os, "fdatasync"):
        os.fdatasync(fd)
    else:
        os.fsync(fd)


def sync_directory(directory: Path) -> None:
    """Make the names in a directory durable: a new file survives a power cut only after this."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        sync_file(fd)
    finally:
        os.close(fd)


def _synced_fully(fd: int, full: FullSync) -> bool:
    try:
        full(fd)
    except OSError as error:
        if error.errno not in _NOT_OFFERED:
            raise
        return False
    return True


def describe(full: FullSync | None = _full_sync) -> str:
    """How a commit is made durable on this machine, for `relight doctor`."""
    return "fsync" if full is None else "F_FULLFSYNC, where the file system offers it"


class Written(NamedTuple):
    """The version of a file: what changes with every write."""

    path: Path
    state: tuple[int, ...]
    """differs if the file was written to or replaced"""

    @staticmethod
    def at(path: Path) -> Written:
        """The file as it is now."""
        found = path.stat()
        return Written(path, (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns))

    def remove(self) -> None:
        """Remove it, if it is as it was, and it can be removed."""
        with suppress(OSError):
            if Written.at(self.path) == self:
                self.path.unlink()
