"""The file and its directory: made private, made durable, told apart from what is not a file.

The database file is created by us and not by SQLite, so that it is never readable by others, not even for a moment;
SQLite gives its log the same mode.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final

from relight.errors import NotAStore, StoreError, StoreFull, StoreReadOnly, StoreUnavailable
from relight.system import private_directories

FILE_MODE: Final = 0o600
_READ_ONLY: Final = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


def prepare(path: Path) -> None:
    """Make the file, and the directories above it that are missing. What exists is left as it is."""
    try:
        if path.is_dir():
            raise NotAStore(str(path), "a directory, not a file")
        if path.exists():
            return
        _make_directories(path.parent)
        made = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, FILE_MODE)
        os.fchmod(made, FILE_MODE)  # an odd umask takes bits away from the mode that was asked for
        os.close(made)
        sync_directory(path.parent)
    except OSError as error:
        raise explained(error, path) from None


def _make_directories(directory: Path) -> None:
    missing = [one for one in (directory, *directory.parents) if not one.exists()]
    private_directories.make(directory)
    for one in reversed(missing):
        sync_directory(one.parent)


def sync_directory(directory: Path) -> None:
    """A new name in a directory survives a power cut only once the directory itself is on the disk."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def explained(error: OSError, path: Path) -> StoreError:
    """Our error for one of the system's."""
    if error.errno in _READ_ONLY:
        return StoreReadOnly(str(path))
    if error.errno in _FULL:
        return StoreFull(str(path))
    if error.errno in (errno.ENOTDIR, errno.EEXIST):
        return NotAStore(str(path), "a part of the path is a file, not a directory")
    hints = ["set RELIGHT_STORE to a path that can be written"]
    return StoreUnavailable(f"{path}: {error.strerror or error}", hints=hints)


def wal_of(path: Path) -> Path:
    """The write-ahead log that belongs to a database file."""
    return path.with_name(path.name + "-wal")


def size_bytes(*paths: Path) -> int:
    """What these files take, those that exist."""
    total = 0
    for path in paths:
        try:
            total += path.stat().st_size
        except FileNotFoundError:
            continue
    return total
