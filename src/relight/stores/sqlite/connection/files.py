"""Creates the database file and its directories, private and durable.

We create the file and not SQLite, so that it is never readable by others, not even for a moment; SQLite gives its log
the same mode.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final

from relight.errors import NotAStore, StoreError, StoreFull, StoreReadOnly, StoreUnavailable
from relight.system import private_directories
from relight.system.durable import sync_directory

FILE_MODE: Final = 0o600
_READ_ONLY: Final = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


def prepare(path: Path) -> None:
    """Create the file and missing parent directories. What exists is left as it is."""
    try:
        if path.is_dir():
            raise NotAStore(str(path), "a directory, not a file")
        if path.exists():
            return
        _make_directories(path.parent)
        made = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, FILE_MODE)
        os.fchmod(made, FILE_MODE)  # the umask may have taken bits away from the requested mode
        os.close(made)
        sync_directory(path.parent)
    except OSError as error:
        raise store_error(error, path) from None


def _make_directories(directory: Path) -> None:
    missing = [one for one in (directory, *directory.parents) if not one.exists()]
    private_directories.make(directory)
    for one in reversed(missing):
        sync_directory(one.parent)


def store_error(error: OSError, path: Path) -> StoreError:
    """The store error for an OSError."""
    if error.errno in _READ_ONLY:
        return StoreReadOnly(str(path))
    if error.errno in _FULL:
        return StoreFull(str(path))
    if error.errno in (errno.ENOTDIR, errno.EEXIST):
        return NotAStore(str(path), "a part of the path is a file, not a directory")
    hints = ["choose a path that can be written: in the command, or RELIGHT_STORE"]
    return StoreUnavailable(f"{path}: {error.strerror or error}", hints=hints)


def wal_of(path: Path) -> Path:
    """The write-ahead log that belongs to a database file."""
    return path.with_name(path.name + "-wal")


def size_bytes(*paths: Path) -> int:
    """Total size of those of these files that exist."""
    total = 0
    for path in paths:
        try:
            total += path.stat().st_size
        except FileNotFoundError:
            continue
    return total
