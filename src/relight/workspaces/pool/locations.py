"""What lies where: the segments of a pool, which of them have a row, and the place of each object.

Learnt from the rows, the directory, the index of each segment and the records behind what its index covers. Records of
other processes are used only after their file was synced here, so whatever is found may be relied on. A place in a
segment with a row is preferred: only on those may a snapshot rely.
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
from relight.workspaces.pool import segment, segment_index
from relight.workspaces.pool.disk import sync_directory, wrapped
from relight.workspaces.pool.locks import try_lock, unlock
from relight.workspaces.pool.segment import Location
from relight.workspaces.pool.segment_index import Index
from relight.workspaces.pool.sync import sync_data

_NONE: Final[frozenset[str]] = frozenset()


def _opened(path: Path) -> int:
    """A segment, for writing too where that is allowed: a store that can only be read is read."""
    try:
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
            raise
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


class Listed:
    """What is known of one segment."""

    __slots__ = ("damaged", "end", "fd", "is_left", "packed", "recent")

    def __init__(self, fd: int, packed: Index | None, end: int) -> None:
        self.fd, self.packed, self.end = fd, packed, end
        """`end`: of the last whole record"""
        self.recent: dict[bytes, Location] = {}
        """what its index does not cover"""
        self.damaged: set[bytes] = set()
        self.is_left = False
        """an error while writing: what this process knows of it is all it will ever know"""

    def find(self, ref: bytes) -> Location | None:
        place = self.recent.get(ref)
        if place is None and self.packed is not None:
            place = self.packed.find(ref)
        return place if place is None or not self.damaged or ref not in self.damaged else None

    def learn(self, ref: bytes, place: Location) -> None:
        """One more record. An object that lies here whole stays so: others may be differences from it."""
        known = self.find(ref) if place.has_base else None
        if known is None or known.has_base:
            self.recent[ref] = place

    def __iter__(self) -> Iterator[tuple[bytes, Location]]:
        for ref, place in self.packed or ():
            if ref not in self.recent:
                yield ref, place
        yield from self.recent.items()


class Locations:
    """The segments of one pool. Not thread-safe: the pool serialises."""

    record_extra: ClassVar[int] = 0
    """what an object takes beyond its record"""

    def __init__(self, directory: Path, key: str, rows: SegmentIndex) -> None:
        self.directory, self._key, self._rows = directory, key, rows
        self.place = str(directory)
        """as people are told"""
        self.rowed: frozenset[str] = frozenset()
        self.listed: dict[str, Listed] = {}
        self._is_stale = True

    # -- looking ----------------------------------------------------------------------------------------------

    def look(self, own: str | None = None) -> bool:
        """Learn what other processes did, unless nothing asks for it; whether it looked. `own` is not read again."""
        if not self._is_stale:
            return False
        with wrapped(self.directory):
            present = {name.removesuffix(".seg") for name in os.listdir(self.directory) if name.endswith(".seg")}
            self.rowed = self._rows.list_segments(self._key)  # after the files: each had its row before it was made
            for name in [gone for gone in self.listed if gone not in present]:
                self.forget(name)
            for name in present:
                if name != own:
                    self._load(name)
        self._is_stale = False
        return True

    def doubt(self) -> None:
        """The next look reads again."""
        self._is_stale = True

    def find(self, ref: bytes, avoid: Set[str] = _NONE) -> Location | None:
        """Where an object lies, best in a segment with a row and none of `avoid`."""
        second = None
        for name, listed in self.listed.items():
            place = listed.find(ref)
            if place is not None and name in self.rowed and name not in avoid:
                return place
            second = second or place
        return second

    def find_whole(self, ref: bytes, avoid: Set[str] = _NONE) -> Location | None:
        """As `find`, where it is no difference: two processes may have stored one object in two forms."""
        second = None
        for name, listed in self.listed.items():
            place = listed.find(ref)
            if place is not None and not place.has_base:
                if name in self.rowed and name not in avoid:
                    return place
                second = second or place
        return second

    # -- one segment ------------------------------------------------------------------------------------------

    def path(self, name: str, suffix: str = ".seg") -> Path:
        return self.directory / (name + suffix)

    def _descriptor(self, name: str) -> int | None:
        listed = self.listed.get(name)
        return listed.fd if listed is not None else None

    def payload(self, place: Location) -> bytes | None:
        """The bytes as stored; None where the file is gone: it may have been copied on."""
        fd = self._descriptor(place.segment)
        if fd is None:
            return None
        data = os.pread(fd, place.payload_bytes, place.offset)
        if len(data) != place.payload_bytes:
            raise Corrupt(f"{place.segment} is shorter than it was")
        return data

    def fetch_anew(self, place: Location) -> bool:
        """Something was read there that cannot be right: whether another try may read something else."""
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
        """When a segment was last written to; the beginning of time where it is gone."""
        fd = self._descriptor(name)
        return os.fstat(fd).st_mtime if fd is not None else 0.0

    def fixed_bytes(self, name: str) -> int:
        """What a segment takes beyond its records."""
        return len(segment.MAGIC)

    def is_scattered(self, name: str) -> bool:
        """Whether a segment lies in so many pieces that it is worth writing together."""
        return False

    def discard(self, name: str) -> None:
        """Remove the file of a segment whose row is gone."""
        self.forget(name)
        for suffix in (".idx", ".seg"):
            self.path(name, suffix).unlink(missing_ok=True)
        sync_directory(self.directory)

    def add(self, name: str, fd: int) -> Listed:
        """A segment that this process has just made."""
        self.rowed |= {name}
        self.listed[name] = Listed(fd, None, len(segment.MAGIC))
        return self.listed[name]

    def _load(self, name: str) -> None:
        listed = self.listed.get(name)
        if listed is None:
            try:
                fd = _opened(self.path(name))
            except FileNotFoundError:
                return
            packed = self._index(name, os.fstat(fd).st_size)
            listed = self.listed[name] = Listed(fd, packed, packed.covered if packed else len(segment.MAGIC))
        self.read_on(name)

    def _index(self, name: str, size: int) -> Index | None:
        try:
            found = segment_index.decode(self.path(name, ".idx").read_bytes(), name)
        except FileNotFoundError:
            return None
        return found if found is not None and found.covered <= size else None

    def read_on(self, name: str) -> int:
        """Read the records behind what is known; they are synced first, so that they may be relied on."""
        listed = self.listed[name]
        size = os.fstat(listed.fd).st_size
        if size > listed.end and not listed.is_left:
            sync_data(listed.fd)
            for ref, place in segment.scan(listed.fd, name, listed.end, size):
                listed.learn(ref, place)
                listed.end = segment.place_end(place)
        return listed.end

    def damage(self, name: str, ref: bytes) -> None:
        """The object was read and is not what it should be: from now on it is not there."""
        if (listed := self.listed.get(name)) is not None:
            listed.damaged.add(ref)

    def write_index(self, name: str) -> None:
        """For the next process; only for bytes that are durable. One that cannot be written is no error."""
        listed = self.listed[name]
        if not listed.recent:
            return
        try:
            private_directories.write(self.path(name, ".idx"), segment_index.encode(listed.end, listed))
        except OSError:
            return

    def forget(self, name: str) -> None:
        """Its file is gone."""
        listed = self.listed.pop(name, None)
        if listed is not None:
            os.close(listed.fd)
        self._is_stale = True

    def end_bytes(self) -> int:
        """What all segments take, as far as they were read."""
        return sum(listed.end for listed in self.listed.values())

    def sizes(self) -> dict[str, int]:
        """Every segment of the last look and what it takes by now, with or without a row."""
        return {name: os.fstat(listed.fd).st_size for name, listed in self.listed.items()}

    def close(self) -> None:
        for listed in self.listed.values():
            os.close(listed.fd)
        self.listed.clear()
        self._is_stale = True
