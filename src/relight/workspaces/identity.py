"""Identity of a workspace's root: whether a directory may be one, and whether it is still the one recorded.

The mark is stored outside the tree, beside the pool: inode and birth time of the root. The device number is not part of
it, since it changes with a reboot; the inode alone is not enough, since it is reused after a directory is removed.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterable
from pathlib import Path

import msgspec

from relight.errors import WorkspaceUnusable
from relight.system import private_directories

_libc = ctypes.CDLL(None, use_errno=True)
_AT_EMPTY_PATH = 0x1000
_STATX_BTIME = 0x800
_MASK_AT, _BTIME_AT = 0, 80


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """What identifies a root: its path, inode and birth time."""

    path: str
    inode: int
    born_ns: int = 0
    """0 if the file system does not record it"""

    def is_same(self, other: Identity) -> bool:
        return self.inode == other.inode and (self.born_ns == other.born_ns or not (self.born_ns and other.born_ns))


def identity(fd: int, path: Path) -> Identity:
    found = os.fstat(fd)
    return Identity(path=str(path), inode=found.st_ino, born_ns=creation_time(fd, found))


def creation_time(fd: int, found: os.stat_result) -> int:
    """The birth time: `os.stat` has it on macOS and the BSDs, statx(2) on Linux."""
    born: float | None = getattr(found, "st_birthtime", None)
    if born is not None:
        return int(born * 1_000_000_000)
    buffer = ctypes.create_string_buffer(256)
    if not hasattr(_libc, "statx") or _libc.statx(fd, b"", _AT_EMPTY_PATH, _STATX_BTIME, buffer):
        return 0
    (mask,) = struct.unpack_from("<I", buffer, _MASK_AT)
    seconds, nanoseconds = struct.unpack_from("<qI", buffer, _BTIME_AT)
    return int(seconds * 1_000_000_000 + nanoseconds) if mask & _STATX_BTIME else 0


def check_suitable(name: str, path: Path, store: Iterable[Path]) -> None:
    """WorkspaceUnusable for directories that must not be restored by mistake: /, a home, a mount, the store's own."""
    real = path.resolve()

    def refuse(why: str, *hints: str) -> None:
        raise WorkspaceUnusable(name, str(path), why, hints=hints)

    if not os.path.isdir(real):  # unlike Path.is_dir, no error for a name that is too long
        if os.path.exists(real):
            refuse("not a directory", "choose a directory")
        refuse("workspace missing", "recreate it from its snapshots: relight restore REF")
    if real == Path("/"):
        refuse("the root of the file system is no workspace")
    if any(_is_same(real, home) for home in _homes()):
        refuse("a home directory is no workspace", "choose a directory in it")
    if os.path.ismount(real):
        refuse("a mount root is no workspace", "choose a directory in it")
    for own in store:
        if any(_is_same(own.resolve(), one) for one in (real, *real.parents)):
            refuse("it is inside relight's own store")


def _is_same(one: Path, other: Path) -> bool:
    """Whether two resolved paths are one directory, also by another spelling where the file system folds case."""
    try:
        return one == other or one.samefile(other)
    except OSError:
        return False


def _homes() -> set[Path]:
    homes = {Path(os.path.expanduser("~")).resolve()}
    if home := os.environ.get("HOME"):
        homes.add(Path(home).resolve())
    return homes


def read_mark(mark: Path) -> Identity | None:
    try:
        return msgspec.json.decode(mark.read_bytes(), type=Identity)
    except (FileNotFoundError, msgspec.MsgspecError):
        return None


def write_mark(mark: Path, found: Identity) -> None:
    private_directories.write(mark, msgspec.json.encode(found))
