"""Opens below a root without following a link, and renames that destroy nothing unseen, on any POSIX system.

| | Linux | macOS | elsewhere, and where kernel or file system refuse |
|---|---|---|---|
| open below the root | openat2 | one component at a time, O_NOFOLLOW | as on macOS |
| exchange two names | renameat2 | renameatx_np | none: `rename_exchange` returns False, `swap` takes three renames |
| take a free name | renameat2 | renameatx_np | link, then unlink |

What a platform offers is in `calls`; a test hands in another.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import stat
import struct
from typing import Any, Final

from relight.ports.faults import point

_OPENAT2: Final = 437
_WORKING_DIRECTORY: Final = -100
_BENEATH_NO_LINKS: Final = 0x08 | 0x04 | 0x02
_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW
_HOW: Final = struct.pack("<QQQ", _FLAGS, 0, _BENEATH_NO_LINKS)
_FILE_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_HOW_FILE: Final = struct.pack("<QQQ", _FILE_FLAGS, 0, _BENEATH_NO_LINKS)
_NO_OPENAT2: Final = (errno.ENOSYS, errno.EPERM, errno.EAGAIN)
_NO_FLAGS: Final = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)
_NO_LINK: Final = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
MAX_DEPTH: Final = 1024

_libc = ctypes.CDLL(None, use_errno=True)


class Calls:
    """What one platform offers beyond POSIX. `libc` is its C library, `system` what uname calls it."""

    def __init__(self, libc: Any, system: str) -> None:
        self.syscall = libc.syscall if system == "Linux" else None
        """for openat2, which C libraries do not have; None once the kernel said that it has none either"""
        self.has_openat2: bool | None = None
        name, self.noreplace, self.exchange = {"Linux": ("renameat2", 1, 2), "Darwin": ("renameatx_np", 4, 2)}.get(
            system, ("", 0, 0)
        )
        self.rename = getattr(libc, name, None) if name else None
        """rename with flags; None if the C library has none"""


calls = Calls(_libc, os.uname().sysname)


def has_openat2() -> bool:
    """Whether the kernel resolves below a root by itself; found out by opening the working directory."""
    if calls.has_openat2 is None:
        fd = None
        with contextlib.suppress(OSError):
            fd = _openat2(_WORKING_DIRECTORY, b".", _HOW)
        calls.has_openat2 = fd is not None
        if fd is not None:
            os.close(fd)
    return calls.has_openat2


def open_directory(root_fd: int, path: bytes) -> int:
    """A descriptor of a directory below the root; `OSError` (ELOOP, EXDEV, ENOTDIR, ENOENT) otherwise."""
    fd = _openat2(root_fd, path or b".", _HOW)
    return fd if fd is not None else _by_components(root_fd, path.split(b"/") if path else [], last=errno.ENOTDIR)


def open_file(root_fd: int, path: bytes) -> int:
    """Open a file below the root for reading; follows no link, and does not block on a fifo."""
    fd = _openat2(root_fd, path, _HOW_FILE)
    if fd is not None:
        return fd
    *parents, name = path.split(b"/")
    dir_fd = _by_components(root_fd, parents)
    try:
        return _open(name, _FILE_FLAGS, dir_fd, errno.ELOOP)
    finally:
        os.close(dir_fd)


def _openat2(root_fd: int, path: bytes, how: bytes) -> int | None:
    """A descriptor, or None if the kernel cannot do it."""
    if calls.syscall is None:
        return None
    fd: int = calls.syscall(_OPENAT2, root_fd, ctypes.c_char_p(path), ctypes.c_char_p(how), len(how))
    if fd >= 0:
        return fd
    code = ctypes.get_errno()
    if code not in _NO_OPENAT2:
        raise OSError(code, os.strerror(code), os.fsdecode(path))
    if code == errno.ENOSYS:
        calls.syscall = None
    return None  # EPERM: a seccomp filter that does not know the call, or this path's own error, which is raised below


def _by_components(root_fd: int, parts: list[bytes], last: int = errno.ELOOP) -> int:
    """Each component is opened in the one before, which cannot be exchanged any more, and none may be a link.

    `last`: the error if the last one is."""
    if len(parts) > MAX_DEPTH:
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
    fd = os.open(".", _FLAGS, dir_fd=root_fd)
    for number, part in enumerate(parts, 1):
        try:
            deeper = _open(part, _FLAGS, fd, last if number == len(parts) else errno.ELOOP)
        finally:
            os.close(fd)
        fd = deeper
    return fd


def _open(name: bytes, flags: int, dir_fd: int, link: int) -> int:
    """Open one name. `link` is the error for a link, as openat2 has it: platforms differ (ELOOP, EMLINK, EFTYPE)."""
    if name in (b"", b".", b".."):
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), os.fsdecode(name))
    try:
        return os.open(name, flags, dir_fd=dir_fd)
    except OSError as error:
        if is_link(dir_fd, name):
            raise OSError(link, os.strerror(link), os.fsdecode(name)) from error
        raise


def rename_exchange(dir_fd: int, one: bytes, other: bytes) -> bool:
    """Swap two names in a directory atomically; False if kernel or file system cannot."""
    return _renamed(dir_fd, one, other, calls.exchange)


def rename_noreplace(dir_fd: int, source: bytes, name: bytes) -> None:
    """Rename `source` to a name that must be free; FileExistsError otherwise."""
    if _renamed(dir_fd, source, name, calls.noreplace):
        return
    try:
        os.link(source, name, src_dir_fd=dir_fd, dst_dir_fd=dir_fd, follow_symlinks=False)
    except (OSError, NotImplementedError) as error:  # the latter by Python itself, where there is no linkat(2)
        if isinstance(error, OSError) and error.errno not in _NO_LINK:
            raise
        # A directory, or a file system without hard links such as vfat. All that is left is to look and then rename: a
        # file that another process creates in between would be replaced.
        if exists(dir_fd, name):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), os.fsdecode(name)) from None
        os.rename(source, name, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
        return
    point("restore.set_aside")
    os.unlink(source, dir_fd=dir_fd)


def _renamed(dir_fd: int, source: bytes, name: bytes, flags: int) -> bool:
    """Rename with flags; False if they are not offered here."""
    if calls.rename is None:
        return False
    if not calls.rename(dir_fd, ctypes.c_char_p(source), dir_fd, ctypes.c_char_p(name), flags):
        return True
    code = ctypes.get_errno()
    if code in _NO_FLAGS:
        return False
    raise OSError(code, os.strerror(code), os.fsdecode(name))


def exists(dir_fd: int, name: bytes) -> bool:
    """Whether a directory has an entry of this name."""
    try:
        os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def is_link(dir_fd: int, name: bytes) -> bool:
    """Whether a name is that of a symbolic link."""
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=dir_fd, follow_symlinks=False).st_mode)
    except OSError:
        return False
