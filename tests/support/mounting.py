"""File systems for a moment, by the calls themselves: mount(8) and umount(8) read /proc, which may be hidden."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_RDONLY, _REMOUNT, _BIND, _MNT_DETACH = 1, 32, 4096, 2


@contextmanager
def small_disk(at: Path, size: str) -> Iterator[Path]:
    """A file system in memory of so many bytes, such as "400k"; the directory is made."""
    at.mkdir(exist_ok=True)
    _mount("tmpfs", at, "tmpfs", 0, f"size={size}")
    try:
        yield at
    finally:
        _detach(at)


@contextmanager
def bound(at: Path) -> Iterator[Path]:
    """A directory mounted on itself, so that it can be made read-only."""
    _mount(str(at), at, "none", _BIND)
    try:
        yield at
    finally:
        _detach(at)


def resize(at: Path, size: str) -> None:
    """Give a `small_disk` another size."""
    _mount("tmpfs", at, "tmpfs", _REMOUNT, f"size={size}")


def make_read_only(at: Path, *, is_bound: bool = False) -> None:
    """Refuse writes from now on: of a `small_disk`, or of a `bound` directory."""
    _mount("none", at, "none", _REMOUNT | _RDONLY | (_BIND if is_bound else 0))


def fill(directory: Path) -> None:
    """Leave no byte on the disk."""
    with open(directory / "filler", "ab", buffering=0) as filler, pytest.raises(OSError):
        while True:
            filler.write(bytes(1024 * 1024))
    assert os.statvfs(directory).f_bavail == 0


def _mount(source: str, at: Path, kind: str, flags: int, options: str = "") -> None:
    texts = [ctypes.c_char_p(text.encode()) for text in (source, str(at), kind, options)]
    if _libc().mount(*texts[:3], ctypes.c_ulong(flags), texts[3]):
        reason = os.strerror(ctypes.get_errno())
        pytest.fail(f"this test has to mount a file system (as root): {reason}", pytrace=False)


def _detach(at: Path) -> None:
    if _libc().umount2(ctypes.c_char_p(str(at).encode()), _MNT_DETACH):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(at))


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
