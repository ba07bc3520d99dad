"""Local cache of segment parts, bounded in size and shared by several processes.

It holds only copies of what is in the blob store, so any of it may be evicted at any time, least recently used first. A
part that cannot be written, because the disk is full, is no error.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from relight.system import private_directories

PARTS: Final = "parts"
"""the subdirectory of a pool"""
_TEMPORARY: Final = ".new-"
EVICT_TO_SHARE: Final = 0.9
"""of the bound, to which an eviction reduces the cache"""
RECOUNT_EVERY: Final = 256
"""puts after which the files are counted again: other processes add some too"""
USED_SECONDS: Final = 600.0
"""a read updates a part's mtime at most this often"""
_ABANDONED_SECONDS: Final = 3600.0


class _File(NamedTuple):
    used_at: float
    size_bytes: int
    path: str


class PartCache:
    """The cached parts of all pools of a store. Thread-safe."""

    def __init__(self, directory: Path, max_bytes: int | None) -> None:
        self._directory, self.max_bytes = directory, max_bytes
        self._lock = threading.Lock()
        self._used_bytes: int | None = None
        self._puts_since_count = 0

    def get(self, pool: str, part: str, at: int, length: int) -> bytes | None:
        """A range of a part; None if it is not cached, shorter if the file is."""
        try:
            fd = os.open(self._path(pool, part), os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            if os.fstat(fd).st_mtime < time.time() - USED_SECONDS:
                with contextlib.suppress(OSError):
                    os.utime(fd)
            return os.pread(fd, length, at)
        except OSError:
            return None
        finally:
            os.close(fd)

    def put(self, pool: str, part: str, data: bytes) -> None:
        """Cache a part that is in the blob store, if there is room."""
        if self.max_bytes is not None and len(data) > self.max_bytes:
            return
        target = self._path(pool, part)
        temporary = target.with_name(f"{_TEMPORARY}{secrets.token_hex(8)}")
        try:
            private_directories.make(target.parent)
            with open(temporary, "xb", opener=_private) as file:
                file.write(data)
            temporary.replace(target)
        except OSError:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            return
        self._make_room(len(data))

    def drop(self, pool: str, part: str) -> None:
        """Remove a part that is damaged or whose segment is gone."""
        with contextlib.suppress(OSError):
            self._path(pool, part).unlink(missing_ok=True)

    def parts(self, pool: str) -> list[str]:
        """The cached parts of a pool."""
        try:
            return [name for name in os.listdir(self._directory / pool / PARTS) if not name.startswith(_TEMPORARY)]
        except OSError:
            return []

    def size_bytes(self) -> int:
        """Total size of the cache."""
        return sum(one.size_bytes for one in self._files())

    def _make_room(self, more: int) -> None:
        if self.max_bytes is None:
            return
        with self._lock:
            self._puts_since_count += 1
            if self._used_bytes is None or self._puts_since_count >= RECOUNT_EVERY:
                self._used_bytes, self._puts_since_count = self.size_bytes(), 0
            else:
                self._used_bytes += more
            if self._used_bytes > self.max_bytes:
                self._used_bytes = self._evict(int(self.max_bytes * EVICT_TO_SHARE))

    def _evict(self, down_to: int) -> int:
        """Remove the least recently used parts; returns the remaining size."""
        found = sorted(self._files())
        used_bytes = sum(one.size_bytes for one in found)
        for one in found:
            if used_bytes <= down_to:
                break
            with contextlib.suppress(OSError):
                os.unlink(one.path)
                used_bytes -= one.size_bytes
        return used_bytes

    def _files(self) -> Iterator[_File]:
        for directory in self._directory.glob(f"*/{PARTS}"):
            try:
                with os.scandir(directory) as entries:
                    yield from filter(None, map(_cache_file, entries))
            except OSError:
                continue  # removed meanwhile

    def _path(self, pool: str, part: str) -> Path:
        return self._directory / pool / PARTS / part


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def _cache_file(entry: os.DirEntry[str]) -> _File | None:
    """A cached file; abandoned temporary files are removed instead."""
    try:
        found = entry.stat(follow_symlinks=False)
        if entry.name.startswith(_TEMPORARY) and found.st_mtime < time.time() - _ABANDONED_SECONDS:
            os.unlink(entry.path)
            return None
    except OSError:
        return None
    return _File(found.st_mtime, found.st_size, entry.path)
