"""Directories that relight makes for itself: nobody else's to read, whatever the umask says, and known as a store's.

`make` gives each directory that it makes, parents included, to the user alone. One that is there already is used only
if it is the user's own and nobody else can write in it: whoever could would choose what relight reads and starts.
"""

from __future__ import annotations

import contextlib
import grp
import os
import pwd
import secrets
import stat
from pathlib import Path
from typing import Final

from relight.errors import StoreUnavailable
from relight.journal.files.store_marks import MARK, MARK_NAME

DIRECTORY_MODE: Final = 0o700
FILE_MODE: Final = 0o600


def make(directory: Path, *, marked: bool = False) -> None:
    """Make a directory and the missing ones above it. `marked`: with the file by which a workspace knows it."""
    for one in reversed([one for one in (directory, *directory.parents) if not one.exists()]):
        try:
            one.mkdir(mode=DIRECTORY_MODE)
        except FileExistsError:
            continue  # another process was faster, and gives it the same mode
        one.chmod(DIRECTORY_MODE)  # an odd umask takes bits away from the mode that was asked for
    if marked:
        mark(directory)


def make_trusted(directory: Path, *, marked: bool = False) -> None:
    """As `make`, and StoreUnavailable where the directory belongs to somebody else or others can write in it."""
    make(directory, marked=False)
    check_trusted(directory)
    if marked:
        mark(directory)


def check_trusted(directory: Path) -> None:
    """StoreUnavailable, with the directory's name, where somebody else could have put something into it."""
    found = directory.stat()
    if found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) & ~DIRECTORY_MODE and not _others_write(found):
        directory.chmod(DIRECTORY_MODE)  # made by an older version, with what the umask left
        return
    if found.st_uid != os.geteuid():
        raise StoreUnavailable(
            f"{directory}: it belongs to another user (uid {found.st_uid}), so what lies in it is not trusted; "
            "nothing was read from it or started",
            hints=["move it away, or set RELIGHT_STORE to a path of your own"],
        )
    if _others_write(found):
        raise StoreUnavailable(
            f"{directory}: other users can write in it (mode {stat.S_IMODE(found.st_mode):04o}), so what lies in it is "
            "not trusted; nothing was read from it or started",
            hints=[f"if nobody else put anything there: chmod 700 {directory}"],
        )


def _others_write(found: os.stat_result) -> bool:
    """A group that is the user's alone, as many systems make one for each user, lets nobody else in."""
    if found.st_mode & stat.S_IWOTH:
        return True
    return bool(found.st_mode & stat.S_IWGRP) and not _is_alone(found.st_gid, found.st_uid)


def _is_alone(gid: int, uid: int) -> bool:
    try:
        group, user = grp.getgrgid(gid), pwd.getpwuid(uid)
    except KeyError:
        return False
    return group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}


def mark(directory: Path) -> None:
    """Put the mark into a store's directory. Where it cannot be written, it is known by what else lies there."""
    path = directory / MARK_NAME
    with contextlib.suppress(OSError):
        if not path.exists():
            write(path, MARK)


def write(path: Path, content: bytes) -> None:
    """A file for the user's eyes alone, whole or not at all. Not synced."""
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE)
    try:
        with open(descriptor, "wb") as file:
            os.fchmod(descriptor, FILE_MODE)
            file.write(content)
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
