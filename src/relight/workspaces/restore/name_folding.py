"""Asks a file system whether it takes two names for one, and what it cannot hold. Nothing is assumed from its type or
its mount options.

A temporary file gets the first name behind a prefix and is looked for by the second one. Directories of one file system
may differ (ext4's casefold is an attribute of a directory), so the nearest existing directory is asked.
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterable
from typing import Final

from relight.values.snapshot import Action
from relight.workspaces.changes.classify import TEMPORARY
from relight.workspaces.restore.openat import exists, open_directory

NAME_MAX: Final = 255
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FORBIDDEN: Final = frozenset(b'<>:"\\|?*') | frozenset(range(32)) | {127}
"""characters that are part of a name on POSIX systems, and that vfat, exFAT and NTFS do not allow"""


def is_one_name(root_fd: int, directory: bytes, one: bytes, other: bytes) -> bool:
    """Whether two names would be one in a directory, or in what will be created there."""
    fd = _nearest(root_fd, directory)
    try:
        prefix = TEMPORARY + secrets.token_hex(4).encode() + b"-"
        room = NAME_MAX - len(prefix)
        probe, sought = (prefix + name[-room:] for name in (one, other))
        if probe == sought:
            return False  # they differ only in what was cut off, which no probe of this length can show
        os.close(os.open(probe, _CREATE, 0o600, dir_fd=fd))
        try:
            return exists(fd, sought)
        finally:
            os.unlink(probe, dir_fd=fd)
    finally:
        os.close(fd)


def is_one_path(root_fd: int, path: bytes, other: bytes) -> bool:
    """Whether two paths lead to one name. Inode numbers do not tell: some file systems give each spelling its own."""
    parts, others = path.split(b"/"), other.split(b"/")
    return len(parts) == len(others) and all(
        one == two or is_one_name(root_fd, b"/".join(parts[:at]), one, two)
        for at, (one, two) in enumerate(zip(parts, others, strict=True))
    )


def not_held(root_fd: int, writes: Iterable[Action]) -> list[tuple[bytes, str]]:
    """New paths that the file system cannot hold, and why: symbolic links, and names with bytes that it refuses.

    Each kind of them is asked once of the root, by a temporary link or file."""
    answers: dict[frozenset[int] | str, str] = {}
    found = []
    for action in writes:
        name = action.path.rpartition(b"/")[2]
        kinds: list[frozenset[int] | str] = [one for one in (_unusual(name),) if one]
        if action.entry is not None and action.entry.kind == "link":
            kinds.append("link")
        for kind in kinds:
            if kind not in answers:
                answers[kind] = _refusal(root_fd, name, is_link=kind == "link")
            if answers[kind]:
                what = "a symbolic link" if kind == "link" else "its name"
                found.append((action.path, f"{what} ({answers[kind]})"))
    return found


def _unusual(name: bytes) -> frozenset[int] | str:
    """What is unusual in a name: characters that some file systems forbid, or bytes that are no UTF-8."""
    try:
        name.decode()
    except UnicodeDecodeError:
        return "not UTF-8"
    return _FORBIDDEN.intersection(name)


def _refusal(root_fd: int, name: bytes, *, is_link: bool) -> str:
    """The error for a temporary link, or for a temporary file with the end of this name; empty: it can be created."""
    probe = TEMPORARY + secrets.token_hex(4).encode() + b"-"
    try:
        if is_link:
            os.symlink(b"probe", probe, dir_fd=root_fd)
        else:
            probe += name[len(probe) - NAME_MAX :]
            os.close(os.open(probe, _CREATE, 0o600, dir_fd=root_fd))
        os.unlink(probe, dir_fd=root_fd)
    except OSError as error:
        # A root that may not be written to says nothing about its file system.
        return "" if error.errno == errno.EACCES else os.strerror(error.errno or 0)
    return ""


def _nearest(root_fd: int, directory: bytes) -> int:
    """A descriptor of the directory, or of the nearest one above it that exists."""
    while True:
        try:
            return open_directory(root_fd, directory)
        except OSError as error:
            if not directory or error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                raise
        directory = directory.rpartition(b"/")[0]
