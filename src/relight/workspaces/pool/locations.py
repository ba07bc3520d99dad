"""Locations: the segments of a pool, which of them are registered, and where each object is.

Learned from the store's rows, the directory, each segment's index and the records after what the index covers. A
location in a registered segment is preferred: only on those may a snapshot depend.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Set
from pathlib import Path
from typing import ClassVar, Final

from relight.errors import Corrupt
from relight.ports.workspace import SegmentIndex
from relight.system import private_directories
from relight.system.durable import sync_data, sync_directory
from relight.workspaces.pool import segment, segment_index
from relight.workspaces.pool.disk import translate_errors, try_lock, unlock
from relight.workspaces.pool.segment import Location
from relight.workspaces.pool.segment_index import Index

_NONE: Final[frozenset[str]] = frozenset()


def _open_segment(path: Path) -> int:
    """Open a segment, for writing if that is allowed."""
    try:
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
            raise
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


class ListedSegment:
    """What this process knows of one segment."""

    __slots__ = ("damaged", "end", "fd", "is_failed", "packed", "recent")

    def __init__(self, fd: int, packed: Index | None, end: int) -> None:
        self.fd, self.packed, self.end = fd, packed, end
        """`end`: the end of the last whole record"""
        self.recent: dict[bytes, Location] = {}
        """objects after what its index covers"""
        self.damaged: set[bytes] = set()
        self.is_failed = False
        """writing it failed: it is not read any further"""

    def find(self, ref: bytes) -> Location | None:
        location = self.recent.get(ref)
        if location is None and self.packed is not None:
            location = self.packed.find(ref)
        return location if location is None or not self.damaged or ref not in self.damaged else None

    def add_record(self, ref: bytes, location: Location) -> None:
        """Add a record. A whole object is not replaced by a delta: others may be deltas of it."""
        known = self.find(ref) if location.has_base else None
        if known is None or known.has_base:
            self.recent[ref] = location

    def __iter__(self) -> Iterator[tuple[bytes, Location]]:
        for ref, location in self.packed or ():
            if ref not in self.recent:
                yield ref, location
        yield from self.recent.items()


class Locations:
    """The segments of one pool. Not thread-safe: the pool serialises."""

    record_extra: ClassVar[int] = 0
    """bytes per object beyond its record"""

    def __init__(self, directory: Path, key: str, rows: SegmentIndex) -> None:
        self.directory, self._key, self._rows = directory, key, rows
        self.location = str(directory)
        """for messages"""
        self.registered: frozenset[str] = frozenset()
        self.listed: dict[str, ListedSegment] = {}
        self._is_stale = True

    # -- refreshing -------------------------------------------------------------------------------------------

    def refresh_if_stale(self, own: str | None = None) -> bool:
        """Learn what other processes did, if marked stale; whether anything was read. `own` is not read again."""
        if not self._is_stale:
            return False
        with translate_errors(self.directory):
            present = {name.removesuffix(".seg") for name in os.listdir(self.directory) if name.endswith(".seg")}
            # Rows after the directory: a segment's row is written before its file, so every file seen had its row.
            self.registered = self._rows.list_segments(self._key)
            for name in [gone for gone in self.listed if gone not in present]:
                self.forget(name)
            for name in present:
                if name != own:
                    self._load(name)
        self._is_stale = False
        return True

    def mark_stale(self) -> None:
        """The next refresh reads everything again."""
        self._is_stale = True

    def find(self, ref: bytes, avoid: Set[str] = _NONE) -> Location | None:
        """The location of an object, preferably in a registered segment and in none of `avoid`."""
        second = None
        for name, listed in self.listed.items():
            location = listed.find(ref)
            if location is not None and name in self.registered and name not in avoid:
                return location
            second = second or location
        return second

    def find_whole(self, ref: bytes, avoid: Set[str] = _NONE) -> Location | None:
        """As `find`, for a location where it is whole: two processes may have stored one object in two forms."""
        second = None
        for name, listed in self.listed.items():
            location = listed.find(ref)
            if location is not None and not location.has_base:
                if name in self.registered and name not in avoid:
                    return location
                second = second or location
        return second

    # -- one segment ------------------------------------------------------------------------------------------

    def path(self, name: str, suffix: str = ".seg") -> Path:
        return self.directory / (name + suffix)

    def _descriptor(self, name: str) -> int | None:
        listed = self.listed.get(name)
        return listed.fd if listed is not None else None

    def payload(self, location: Location) -> bytes | None:
        """The bytes as stored; None if the file is gone: a sweep may have copied them elsewhere."""
        fd = self._descriptor(location.segment)
        if fd is None:
            return None
        data = os.pread(fd, location.payload_bytes, location.offset)
        if len(data) != location.payload_bytes:
            raise Corrupt(f"{location.segment} is shorter than it was")
        return data

    def drop_cached(self, location: Location) -> bool:
        """After a read that failed its hash: drop cached bytes; whether another attempt may read others."""
        return False

    def is_busy(self, name: str) -> bool:
        """Whether another process is writing this segment."""
        fd = self._descriptor(name)
        if fd is None:
            return False
        if not try_lock(fd):
            return True
        unlock(fd)
        return False

    def written_at(self, name: str) -> float:
        """When a segment was last written to; 0 if it is gone."""
        fd = self._descriptor(name)
        return os.fstat(fd).st_mtime if fd is not None else 0.0

    def fixed_bytes(self, name: str) -> int:
        """The size of a segment beyond its records."""
        return len(segment.MAGIC)

    def is_scattered(self, name: str) -> bool:
        """Whether a segment consists of so many small parts that it is worth rewriting."""
        return False

    def discard(self, name: str) -> None:
        """Delete the file of a segment that is no longer registered."""
        self.forget(name)
        for suffix in (".idx", ".seg"):
            self.path(name, suffix).unlink(missing_ok=True)
        sync_directory(self.directory)

    def add(self, name: str, fd: int) -> ListedSegment:
        """Add a segment that this process has just created."""
        self.registered |= {name}
        self.listed[name] = ListedSegment(fd, None, len(segment.MAGIC))
        return self.listed[name]

    def _load(self, name: str) -> None:
        listed = self.listed.get(name)
        if listed is None:
            try:
                fd = _open_segment(self.path(name))
            except FileNotFoundError:
                return
            packed = self._index(name, os.fstat(fd).st_size)
            listed = self.listed[name] = ListedSegment(fd, packed, packed.covered if packed else len(segment.MAGIC))
        self.read_new_records(name)

    def _index(self, name: str, size: int) -> Index | None:
        try:
            found = segment_index.decode(self.path(name, ".idx").read_bytes(), name)
        except FileNotFoundError:
            return None
        return found if found is not None and found.covered <= size else None

    def read_new_records(self, name: str) -> int:
        """Read the records that other processes appended; returns the end of the last whole one."""
        listed = self.listed[name]
        size = os.fstat(listed.fd).st_size
        if size > listed.end and not listed.is_failed:
            sync_data(listed.fd)  # their writer may not have synced them yet, and a snapshot of ours may depend on them
            for ref, location in segment.scan(listed.fd, name, listed.end, size):
                listed.add_record(ref, location)
                listed.end = segment.location_end(location)
        return listed.end

    def mark_damaged(self, name: str, ref: bytes) -> None:
        """Treat an object that failed its hash as missing."""
        if (listed := self.listed.get(name)) is not None:
            listed.damaged.add(ref)

    def write_index(self, name: str) -> None:
        """Write the index for the next process, over durable bytes only. Failing to write it is no error."""
        listed = self.listed[name]
        if not listed.recent:
            return
        try:
            private_directories.write(self.path(name, ".idx"), segment_index.encode(listed.end, listed))
        except OSError:
            return

    def forget(self, name: str) -> None:
        """Forget a segment whose file is gone."""
        listed = self.listed.pop(name, None)
        if listed is not None:
            os.close(listed.fd)
        self._is_stale = True

    def end_bytes(self) -> int:
        """Total size of all segments, as far as they were read."""
        return sum(listed.end for listed in self.listed.values())

    def sizes(self) -> dict[str, int]:
        """The present size of every segment of the last refresh."""
        return {name: os.fstat(listed.fd).st_size for name, listed in self.listed.items()}

    def close(self) -> None:
        for listed in self.listed.values():
            os.close(listed.fd)
        self.listed.clear()
        self._is_stale = True
