"""Asks a file system whether it takes two names for one. Nothing is assumed from its type or its mount options.

A temporary file gets the first name behind a prefix and is looked for by the second one. Directories of one file system
may differ (ext4's casefold is an attribute of a directory), so the nearest existing directory is asked.
"""

from __future__ import annotations

import errno
import os
import secrets
from typing import Final

from relight.workspaces.changes.classify import TEMPORARY
from relight.workspaces.restore.openat import exists, open_directory

NAME_MAX: Final = 255


def is_one_name(root_fd: int, directory: bytes, one: bytes, other: bytes) -> bool:
    """Whether two names would be one in a directory, or in what will be created there."""
    fd = _nearest(root_fd, directory)
    try:
        prefix = TEMPORARY + secrets.token_hex(4).encode() + b"-"
        room = NAME_MAX - len(prefix)
        probe, sought = (prefix + name[-room:] for name in (one, other))
        if probe == sought:
            return False  # they differ only in what was cut off, which no probe of this length can show
        os.close(os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=fd))
        try:
            return exists(fd, sought)
        finally:
            os.unlink(probe, dir_fd=fd)
    finally:
        os.close(fd)


def is_one_file(root_fd: int, path: bytes, other: bytes) -> bool:
    """Whether two paths lead to the same file now."""
    found = []
    for one in (path, other):
        parent, _, name = one.rpartition(b"/")
        try:
            fd = open_directory(root_fd, parent)
        except OSError:
            return False
        try:
            found.append(os.stat(name, dir_fd=fd, follow_symlinks=False).st_ino)
        except OSError:
            return False
        finally:
            os.close(fd)
    return found[0] == found[1]


def _nearest(root_fd: int, directory: bytes) -> int:
    """A descriptor of the directory, or of the nearest one above it that exists."""
    while True:
        try:
            return open_directory(root_fd, directory)
        except OSError as error:
            if not directory or error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                raise
        directory = directory.rpartition(b"/")[0]
