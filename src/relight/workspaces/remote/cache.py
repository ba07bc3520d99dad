"""Parts of segments kept on this machine, so that what was fetched or sent once is not fetched again. With a bound.

Only what lies in the blob store comes in here, so anything may go at any moment: the oldest first, once all of it takes
more than the bound. A part that cannot be kept, because the disk is full, is no error. Several processes share it.
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
"""the directory of a pool in which they lie"""
_NEW: Final = ".new-"
KEPT_SHARE: Final = 0.9
"""of the bound, after something had to go"""
COUNT_AGAIN: Final = 256
"""parts after which all are counted again: other processes add some too"""
USED_SECONDS: Final = 600.0
"""a part that is read is marked as used at most this often"""
_LEFT_SECONDS: Final = 3600.0


class _File(NamedTuple):
    used_at: float
    size_bytes: int
    path: str


class PartCache:
    """The parts of all pools in one directory. Thread-safe."""

    def __init__(self, directory: Path, most_bytes: int | None) -> None:
        self._directory, self.most_bytes = directory, most_bytes
        self._lock = threading.Lock()
        self._taken: int | None = None
        self._since = 0

    def get(self, pool: str, part: str, at: int, length: int) -> bytes | None:
        """A piece of a part; None where it is not here. Shorter where the file is."""
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
        """Keep a part that lies in the blob store, where there is room for it."""
        if self.most_bytes is not None and len(data) > self.most_bytes:
            return
        target = self._path(pool, part)
        beside = target.with_name(f"{_NEW}{secrets.token_hex(8)}")
        try:
            private_directories.make(target.parent)
            with open(beside, "xb", opener=_private) as file:
                file.write(data)
            beside.replace(target)
        except OSError:
            with contextlib.suppress(OSError):
                beside.unlink(missing_ok=True)
            return
        self._make_room(len(data))

    def drop(self, pool: str, part: str) -> None:
        """It is damaged, or its segment is gone."""
        with contextlib.suppress(OSError):
            self._path(pool, part).unlink(missing_ok=True)

    def parts(self, pool: str) -> list[str]:
        """Those of a pool."""
        try:
            return [name for name in os.listdir(self._directory / pool / PARTS) if not name.startswith(_NEW)]
        except OSError:
            return []

    def size_bytes(self) -> int:
        """What all of it takes."""
        return sum(one.size_bytes for one in self._files())

    def _make_room(self, more: int) -> None:
        if self.most_bytes is None:
            return
        with self._lock:
            self._since += 1
            if self._taken is None or self._since >= COUNT_AGAIN:
                self._taken, self._since = self.size_bytes(), 0
            else:
                self._taken += more
            if self._taken > self.most_bytes:
                self._taken = self._evict(int(self.most_bytes * KEPT_SHARE))

    def _evict(self, down_to: int) -> int:
        """The least recently used go; what is left."""
        found = sorted(self._files())
        taken = sum(one.size_bytes for one in found)
        for one in found:
            if taken <= down_to:
                break
            with contextlib.suppress(OSError):
                os.unlink(one.path)
                taken -= one.size_bytes
        return taken

    def _files(self) -> Iterator[_File]:
        for directory in self._directory.glob(f"*/{PARTS}"):
            try:
                with os.scandir(directory) as entries:
                    yield from filter(None, map(_looked_at, entries))
            except OSError:
                continue  # it went while we looked

    def _path(self, pool: str, part: str) -> Path:
        return self._directory / pool / PARTS / part


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def _looked_at(entry: os.DirEntry[str]) -> _File | None:
    """A file that counts; what a kill left half-written goes instead."""
    try:
        found = entry.stat(follow_symlinks=False)
        if entry.name.startswith(_NEW) and found.st_mtime < time.time() - _LEFT_SECONDS:
            os.unlink(entry.path)
            return None
    except OSError:
        return None
    return _File(found.st_mtime, found.st_size, entry.path)
