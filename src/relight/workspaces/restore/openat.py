"""openat2(RESOLVE_BENEATH) and renameat2: descriptors that cannot leave a root, renames that destroy nothing unseen.

`open_directory` resolves below the root without following any link: openat2 if the kernel has it, else one component at
a time with O_NOFOLLOW. `rename_exchange` swaps two names, `rename_noreplace` takes a name that must be free; on file
systems without renameat2 flags the latter links, and the former raises EINVAL.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from typing import Final

_OPENAT2: Final = 437
_RENAME_NOREPLACE, _RENAME_EXCHANGE = 1, 2
_BENEATH_NO_LINKS: Final = 0x08 | 0x04 | 0x02
_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW
_HOW: Final = struct.pack("<QQQ", _FLAGS, 0, _BENEATH_NO_LINKS)
_FILE_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_HOW_FILE: Final = struct.pack("<QQQ", _FILE_FLAGS, 0, _BENEATH_NO_LINKS)
MAX_DEPTH: Final = 1024

_libc = ctypes.CDLL(None, use_errno=True)


class _Kernel:
    """What is known about the kernel."""

    has_openat2 = os.uname().sysname == "Linux"


_kernel = _Kernel()


def open_directory(root_fd: int, path: bytes) -> int:
    """A descriptor of a directory below the root; `OSError` (ELOOP, EXDEV, ENOTDIR, ENOENT) otherwise."""
    if _kernel.has_openat2:
        fd: int = _libc.syscall(_OPENAT2, root_fd, ctypes.c_char_p(path or b"."), ctypes.c_char_p(_HOW), len(_HOW))
        if fd >= 0:
            return fd
        code = ctypes.get_errno()
        if code not in (errno.ENOSYS, errno.EPERM, errno.EAGAIN):
            raise OSError(code, os.strerror(code), os.fsdecode(path))
        _kernel.has_openat2 = code == errno.EAGAIN
    return _by_components(root_fd, path)


def open_file(root_fd: int, path: bytes) -> int:
    """Open a file below the root for reading; follows no link, and does not block on a fifo."""
    if _kernel.has_openat2:
        fd: int = _libc.syscall(_OPENAT2, root_fd, ctypes.c_char_p(path), ctypes.c_char_p(_HOW_FILE), len(_HOW_FILE))
        if fd >= 0:
            return fd
        code = ctypes.get_errno()
        if code not in (errno.ENOSYS, errno.EPERM, errno.EAGAIN):
            raise OSError(code, os.strerror(code), os.fsdecode(path))
    parent, _, name = path.rpartition(b"/")
    dir_fd = open_directory(root_fd, parent)
    try:
        return os.open(name, _FILE_FLAGS, dir_fd=dir_fd)
    finally:
        os.close(dir_fd)


def _by_components(root_fd: int, path: bytes) -> int:
    parts = path.split(b"/") if path else []
    if len(parts) > MAX_DEPTH or any(part in (b"", b".", b"..") for part in parts):
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), os.fsdecode(path))
    fd = os.open(".", _FLAGS, dir_fd=root_fd)
    for part in parts:
        try:
            deeper = os.open(part, _FLAGS, dir_fd=fd)
        finally:
            os.close(fd)
        fd = deeper
    return fd


def rename_exchange(dir_fd: int, one: bytes, other: bytes) -> None:
    """Swap two names in a directory atomically."""
    _rename(dir_fd, one, other, _RENAME_EXCHANGE)


def rename_noreplace(dir_fd: int, source: bytes, name: bytes) -> None:
    """Rename `source` to a name that must be free; FileExistsError otherwise."""
    try:
        _rename(dir_fd, source, name, _RENAME_NOREPLACE)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOSYS):
            raise
        os.link(source, name, src_dir_fd=dir_fd, dst_dir_fd=dir_fd, follow_symlinks=False)
        os.unlink(source, dir_fd=dir_fd)


def _rename(dir_fd: int, source: bytes, name: bytes, flags: int) -> None:
    if _libc.renameat2(dir_fd, ctypes.c_char_p(source), dir_fd, ctypes.c_char_p(name), flags):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), os.fsdecode(name))
