"""Private directories: relight's own directories, accessible to this user only, whatever the umask.

`make` creates directories, parents included, with mode 0700. An existing directory is trusted only if it belongs to the
user and no other user can write to it: one who could would choose what relight reads and starts.
"""

from __future__ import annotations

import contextlib
import os
import stat
from hashlib import sha256
from pathlib import Path
from typing import Final

from relight.errors import StoreUnavailable
from relight.journal.files.store_marks import MARK, MARK_NAME

DIRECTORY_MODE: Final = 0o700
FILE_MODE: Final = 0o600
SOCKET_PATH_BYTES: Final = 100
"""macOS allows 104 in a socket address, Linux 108"""
_SHORT_NAME: Final = 16


def make(directory: Path, *, marked: bool = False) -> None:
    """Create a directory and its missing parents. `marked`: with the marker file by which captures exclude it."""
    for one in reversed([one for one in (directory, *directory.parents) if not one.exists()]):
        try:
            one.mkdir(mode=DIRECTORY_MODE)
        except FileExistsError:
            continue  # another process created it, with the same mode
        one.chmod(DIRECTORY_MODE)  # a umask may have removed bits from the mode given to mkdir
    if marked:
        mark(directory)


def make_trusted(directory: Path, *, marked: bool = False) -> None:
    """As `make`; StoreUnavailable if the directory belongs to another user or others can write to it."""
    make(directory, marked=False)
    check_trusted(directory)
    if marked:
        mark(directory)


def check_trusted(directory: Path) -> None:
    """StoreUnavailable if another user could have put something into the directory."""
    found = directory.stat()
    if found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) & ~DIRECTORY_MODE and not _others_write(found):
        directory.chmod(DIRECTORY_MODE)  # made by an older version, with what the umask left
        return
    if found.st_uid != os.geteuid():
        raise StoreUnavailable(
            f"{directory}: it belongs to another user (uid {found.st_uid}), so its content is not trusted; "
            "nothing was read from it or started",
            hints=["move it away, or set RELIGHT_STORE to a path of your own"],
        )
    if _others_write(found):
        raise StoreUnavailable(
            f"{directory}: other users can write to it (mode {stat.S_IMODE(found.st_mode):04o}), so its content is "
            "not trusted; nothing was read from it or started",
            hints=[f"if no other user put anything there: chmod 700 {directory}"],
        )


def _others_write(found: os.stat_result) -> bool:
    if found.st_mode & stat.S_IWOTH:
        return True
    # Many systems give each user a group of their own; write access for that group admits no one else.
    return bool(found.st_mode & stat.S_IWGRP) and not _is_alone(found.st_gid, found.st_uid)


def _is_alone(gid: int, uid: int) -> bool:
    import grp
    import pwd

    try:
        group, user = grp.getgrgid(gid), pwd.getpwuid(uid)
    except KeyError:
        return False
    return group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}


def short_socket(path: Path) -> Path:
    """A path at which a socket can be bound: this one, or if it is too long for a socket address, one in a directory
    of ours in /tmp, always the same for the same path. `make_in_shared` creates that directory."""
    if len(os.fsencode(path)) <= SOCKET_PATH_BYTES:
        return path
    # Neither TMPDIR nor XDG_RUNTIME_DIR: they differ between a terminal, a service and ssh, and all must find it.
    name = sha256(os.fsencode(os.path.realpath(path.parent))).hexdigest()[:_SHORT_NAME]
    return Path(f"/tmp/relight-{os.geteuid()}", name, path.name)


def make_in_shared(directory: Path) -> None:
    """Create a directory whose parent is ours, in a directory where other users can create files (/tmp).
    StoreUnavailable if another user has put something else in its place."""
    for one in (directory.parent, directory):
        with contextlib.suppress(FileExistsError):
            one.mkdir(mode=DIRECTORY_MODE)
    check_in_shared(directory)


def check_in_shared(directory: Path) -> None:
    """StoreUnavailable unless this directory and its parent are directories of ours, no links, closed to others."""
    for one in (directory.parent, directory):
        found = one.lstat()
        is_ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
        if not is_ours or found.st_mode & 0o077:
            raise StoreUnavailable(
                f"{one}: not a directory that only this user can enter (mode {stat.filemode(found.st_mode)}, uid "
                f"{found.st_uid}), so nothing in it is trusted; nothing was started",
                hints=["remove it, or choose a shorter path for the store: set RELIGHT_STORE"],
            )


def mark(directory: Path) -> None:
    """Write the marker file into a store's directory; if that fails, its other files identify it."""
    path = directory / MARK_NAME
    with contextlib.suppress(OSError):
        if not path.exists():
            write(path, MARK)


def write(path: Path, content: bytes) -> None:
    """Write a file readable by this user only, atomically. Not synced."""
    partial = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE)
    try:
        with open(descriptor, "wb") as file:
            os.fchmod(descriptor, FILE_MODE)
            file.write(content)
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
