"""Scans directories into one block of bytes each, so that "unchanged" is one comparison of bytes.

A block is u32 count, then per entry mode, size, mtime_ns, ctime_ns, inode, then the names joined by `/`, sorted by
name. For a directory only mode and inode are included: its times change with every file in it. An entry that cannot be
read has mode 0. Directories are opened beneath the root without following links. The compiled scanner (`native`) and
the Python code here produce the same bytes.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from relight.workspaces.changes import native
from relight.workspaces.restore.openat import open_directory

_COUNT: Final = struct.Struct("<I")
_STAT: Final = struct.Struct("<IQqqQ")
THREADS: Final = min(4, os.cpu_count() or 1)

Stat = tuple[int, int, int, int, int]
"""mode, size, mtime_ns, ctime_ns, inode"""


class Found(NamedTuple):
    """A directory that has changed: its block, or the errno that kept us from reading it."""

    path: bytes
    block: bytes
    error: int


def scan(root_fd: int, paths: Sequence[bytes], before: Sequence[bytes]) -> list[Found]:
    """The directories among `paths` whose block is not the one in `before` (empty: unknown)."""
    library = native.load()
    if library is None:
        return _scan_python(root_fd, paths, before)
    return _scan_native(library, root_fd, paths, before)


def parse(block: bytes) -> dict[bytes, Stat]:
    """The stats of a block by name, in order."""
    if not block:
        return {}
    (count,) = _COUNT.unpack_from(block)
    end = _COUNT.size + count * _STAT.size
    names = block[end:].split(b"/") if count else []
    return dict(zip(names, _STAT.iter_unpack(memoryview(block)[_COUNT.size : end]), strict=True))


def build(stats: dict[bytes, Stat]) -> bytes:
    """The block of a directory with these names and stats."""
    names = sorted(stats)
    return _COUNT.pack(len(names)) + b"".join(_STAT.pack(*stats[name]) for name in names) + b"/".join(names)


def stat_of(found: os.stat_result) -> Stat:
    """A stat in the form of a block."""
    if stat.S_ISDIR(found.st_mode):
        return found.st_mode, 0, 0, 0, found.st_ino
    return found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino


class _Result(ctypes.Structure):
    _fields_ = (
        ("error", ctypes.c_int32),
        ("same", ctypes.c_int32),
        ("size", ctypes.c_uint64),
        ("data", ctypes.c_void_p),
    )


def _scan_native(library: ctypes.CDLL, root_fd: int, paths: Sequence[bytes], before: Sequence[bytes]) -> list[Found]:
    count = len(paths)
    names = (ctypes.c_char_p * count)(*paths)
    offsets = (ctypes.c_uint64 * (count + 1))()
    total = 0
    for at, block in enumerate(before):
        total += len(block)
        offsets[at + 1] = total
    results = (_Result * count)()
    library.relight_scan(root_fd, count, names, b"".join(before), offsets, results, THREADS)
    try:
        return [
            Found(paths[at], ctypes.string_at(one.data, one.size) if one.data else b"", one.error)
            for at, one in enumerate(results)
            if not one.same
        ]
    finally:
        library.relight_release(count, results)


def _scan_python(root_fd: int, paths: Sequence[bytes], before: Sequence[bytes]) -> list[Found]:
    found = []
    for path, old in zip(paths, before, strict=True):
        try:
            block = _block(root_fd, path)
        except OSError as error:
            found.append(Found(path, b"", error.errno or errno.EIO))
            continue
        if block != old or not old:
            found.append(Found(path, block, 0))
    return found


def _block(root_fd: int, path: bytes) -> bytes:
    fd = open_directory(root_fd, path)
    try:
        entries = []
        with os.scandir(fd) as listing:
            for one in listing:
                name = os.fsencode(one.name)
                try:
                    entries.append((name, stat_of(one.stat(follow_symlinks=False))))
                except FileNotFoundError:
                    continue
                except OSError:
                    entries.append((name, (0, 0, 0, 0, 0)))
    finally:
        os.close(fd)
    entries.sort()
    stats = b"".join(_STAT.pack(*found) for _, found in entries)
    return _COUNT.pack(len(entries)) + stats + b"/".join(name for name, _ in entries)
