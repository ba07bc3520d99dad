"""A pool: the content of one workspace and its forks, as objects by hash in segments that several processes share.

Guarantee: `has` is true only for objects that are durable, or will be at the next `sync`, in a segment that was
registered with the store at the last refresh; a snapshot may be returned only after `sync`. `locations` knows where
objects are, `writer` writes them, `remote` does both in a blob store, `compress` encodes them, `sweep` removes them.
"""

from __future__ import annotations

import threading
from collections.abc import Set
from pathlib import Path
from typing import Final

from relight.errors import Corrupt
from relight.ports.workspace import SegmentIndex
from relight.system import private_directories
from relight.workspaces.pool import compress
from relight.workspaces.pool.compress import Base
from relight.workspaces.pool.disk import translate_errors
from relight.workspaces.pool.locations import Locations
from relight.workspaces.pool.objects import OBJECT_MAX_BYTES, digest
from relight.workspaces.pool.segment import DELTA, PLAIN, Location, Record, header_bytes
from relight.workspaces.pool.writer import Writer
from relight.workspaces.remote.locations import RemoteLocations
from relight.workspaces.remote.prefix import RemotePrefix
from relight.workspaces.remote.writer import RemoteWriter

MAX_RELIABLE_CACHED: Final = 100_000
READ_ATTEMPTS: Final = 3
_NOTHING: Final[frozenset[str]] = frozenset()


class Pool:
    """Objects by hash. `used` collects the segments a snapshot depends on, until it is cleared. Thread-safe."""

    def __init__(self, directory: Path, key: str, rows: SegmentIndex, remote: RemotePrefix | None = None) -> None:
        """In files of this directory, or, if `remote` is given, in a blob store with a cache in this directory."""
        self.directory, self.key, self.rows = directory / key, key, rows
        self.used: set[str] = set()
        self.stored_bytes = 0
        self._lock = threading.RLock()
        self._reliable_cached: dict[bytes, Location] = {}
        """found reliable and marked as used since the last refresh"""
        with translate_errors(self.directory):
            for made in (directory, self.directory):
                private_directories.make(made)
        self.is_remote = remote is not None
        self._locations: Locations
        self.writer: Writer | RemoteWriter
        if remote is None:
            self._locations = Locations(self.directory, key, rows)
            self.writer = Writer(self._locations, key, rows, self._reliable_cached.clear)
        else:
            self._locations = remote_locations = RemoteLocations(self.directory, key, rows, remote)
            self.writer = RemoteWriter(remote_locations, key, rows, self._reliable_cached.clear)

    @property
    def location(self) -> str:
        """Where it is stored, for messages."""
        return self._locations.location

    # -- reading ----------------------------------------------------------------------------------------------

    def has(self, ref: bytes) -> bool:
        """Whether a snapshot may depend on the object; marks its segments as used."""
        return self._find_reliable(ref) is not None

    def _find_reliable(self, ref: bytes) -> Location | None:
        with self._lock:
            self._refresh_if_stale()
            location = self._reliable_cached.get(ref)
            if location is not None:
                return location
            location, registered = self._locations.find(ref), self._locations.registered
            if location is None or location.segment not in registered:
                return None
            if location.has_base:
                base = self._locations.find_whole(location.base)
                if base is None or base.segment not in registered:
                    return None
                self.used.add(base.segment)
            self.used.add(location.segment)
            if len(self._reliable_cached) >= MAX_RELIABLE_CACHED:
                self._reliable_cached.clear()
            self._reliable_cached[ref] = location
            return location

    def clear_used(self) -> None:
        """Empty `used`, so that it collects for the next snapshot."""
        with self._lock:
            self.used.clear()
            self._reliable_cached.clear()

    def find(self, ref: bytes) -> Location | None:
        """The location of an object, in a registered segment or not."""
        with self._lock:
            self._refresh_if_stale()
            location = self._locations.find(ref)
            if location is None:
                self.refresh()
                location = self._locations.find(ref)
            return location

    def find_avoiding(self, ref: bytes, avoid: Set[str]) -> Location | None:
        """As `find`, but preferably not in these segments."""
        with self._lock:
            self._refresh_if_stale()
            return self._locations.find(ref, avoid)

    def find_whole(self, ref: bytes, avoid: Set[str] = _NOTHING) -> Location | None:
        """As `find_avoiding`, for a location where the object is stored whole, so that others may be deltas of it."""
        with self._lock:
            self._refresh_if_stale()
            location = self._locations.find_whole(ref, avoid)
            if location is None:
                self.refresh()
                location = self._locations.find_whole(ref, avoid)
            return location

    def read(self, ref: bytes) -> bytes:
        """The object, checked by its hash; `Corrupt` if it is missing or damaged."""
        return self.read_based(ref)[0]

    def read_based(self, ref: bytes) -> tuple[bytes, Base]:
        """The object, and the whole object it is a delta of, or itself."""
        for _ in range(READ_ATTEMPTS):  # a concurrent sweep may move it to another segment
            found = self._read_once(ref)
            if found is not None:
                return found
            self.refresh()
        location = self.find(ref)
        why = "is missing" if location is None or not location.has_base else "has lost the one it is a difference from"
        raise Corrupt(f"object {ref.hex()[:12]} {why} in {self._locations.location}")

    def _read_once(self, ref: bytes) -> tuple[bytes, Base] | None:
        location = self.find(ref)
        if location is None:
            return None
        if not location.has_base:
            data = self._read_object(ref, location)
            return None if data is None else (data, Base(ref, data))
        under = self.find_whole(location.base)
        base = self._read_object(location.base, under) if under is not None else None
        data = self._read_object(ref, location, base) if base is not None else None
        return None if data is None or base is None else (data, Base(location.base, base))

    def _read_object(self, ref: bytes, location: Location, base: bytes = b"") -> bytes | None:
        try:
            return self._checked(ref, location, base)
        except Corrupt:
            with self._lock:
                may_help = self._locations.drop_cached(location)
        try:
            if may_help:
                return self._checked(ref, location, base)
        except Corrupt:
            may_help = False
        with self._lock:
            self._locations.mark_damaged(location.segment, ref)  # so that the next `put` stores it again
            self._reliable_cached.pop(ref, None)
        raise Corrupt(f"object {ref.hex()[:12]} is damaged in {self._locations.location}, {location.segment}")

    def _checked(self, ref: bytes, location: Location, base: bytes) -> bytes | None:
        payload = self.payload(location)
        if payload is None:
            return None
        data = compress.unpack(location.form, payload, location.raw_bytes, base)
        if digest(data) != ref:
            raise Corrupt("it has another hash")
        return data

    def payload(self, location: Location) -> bytes | None:
        """The bytes as stored; None if they are gone: a sweep may have copied them to another segment."""
        with self._lock:
            self.writer.flush_for(location)
            return self._locations.payload(location)

    # -- writing ----------------------------------------------------------------------------------------------

    def put(self, ref: bytes, data: bytes, former: bytes | None = None) -> None:
        """Store an object unless it exists, as a delta of its former version if that is smaller."""
        if len(data) > OBJECT_MAX_BYTES:
            raise ValueError("an object over its bound; callers cut large files into chunks")
        if self._find_reliable(ref) is None:
            worth = former is not None and len(data) >= compress.DELTA_LEAST_BYTES
            self.append(compress.pack(ref, data, self._base(former) if worth and former is not None else None))

    def _base(self, former: bytes) -> Base | None:
        """The whole object behind a former version, if a snapshot may depend on it."""
        location = self._find_reliable(former)
        if location is not None and location.has_base:
            former = location.base
            location = self._find_reliable(former)
        if location is None or location.has_base or location.raw_bytes > compress.BASE_MAX_BYTES:
            return None
        data = self._read_object(former, location)
        return Base(former, data) if data is not None else None

    def put_based(self, ref: bytes, data: bytes, base: Base | None) -> Base | None:
        """As `put`, with the base in memory; returns the base for the next version."""
        there = self._find_reliable(ref)
        if there is not None:  # the content went back to an earlier version
            return base if there.has_base else Base(ref, data)
        under = self._find_reliable(base.ref) if base is not None else None
        record = compress.pack(ref, data, base if under is not None and not under.has_base else None)
        self.append(record)
        return base if record.form >= DELTA else Base(ref, data)

    def put_hashes(self, ref: bytes, data: bytes) -> None:
        """As `put`, uncompressed: for objects that consist of hashes, which do not compress."""
        if self._find_reliable(ref) is None:
            self.append(Record(ref, PLAIN, len(data), data))

    def append(self, record: Record) -> None:
        """Write a record to our own segment."""
        with self._lock:
            self._refresh_if_stale()
            name, size = self.writer.append(record)
            self.stored_bytes += size
            self.used.add(name)

    def sync(self) -> None:
        """Make everything put so far durable."""
        with self._lock:
            self.writer.sync()

    def rollback(self) -> None:
        """Undo what was put since the last `sync`."""
        with self._lock:
            self.writer.rollback()

    def check_room(self) -> None:
        """OverQuota if what was put since the last `sync` exceeds the quota or the free-space floor."""
        with self._lock:
            self.writer.check_room()

    def start_segment(self) -> None:
        """Write the next records to a new segment."""
        with self._lock:
            self._refresh_if_stale()
            self.writer.start_segment()

    # -- segments ---------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Learn what other processes did: new segments, new records, removed rows."""
        with self._lock:
            self._locations.mark_stale()
            self._refresh_if_stale()

    def _refresh_if_stale(self) -> None:
        own = self.writer.own
        if not self._locations.refresh_if_stale(own.name if own is not None else None):
            return
        self._reliable_cached.clear()
        if own is not None and (own.name not in self._locations.listed or own.name not in self._locations.registered):
            self.writer.abandon()

    @property
    def registered(self) -> frozenset[str]:
        with self._lock:
            self._refresh_if_stale()
            return self._locations.registered

    def files(self) -> dict[str, int]:
        """All segments and their sizes, registered or not, as of the last refresh: newer ones are not judged."""
        with self._lock:
            self._refresh_if_stale()
            return self._locations.sizes()

    def objects_in(self, name: str) -> list[tuple[bytes, Location]]:
        with self._lock:
            self._refresh_if_stale()
            listed = self._locations.listed.get(name)
            return list(listed) if listed is not None else []

    def discard(self, name: str) -> None:
        """Delete the content of a segment that is no longer registered."""
        with self._lock, translate_errors(self.directory):
            if self._is_own(name):
                self.writer.abandon()
            self._locations.discard(name)

    def _is_own(self, name: str) -> bool:
        return self.writer.own is not None and self.writer.own.name == name

    def is_busy(self, name: str) -> bool:
        """Whether a process is writing this segment, as far as can be seen from this machine."""
        with self._lock:
            return self._is_own(name) or self._locations.is_busy(name)

    def written_at(self, name: str) -> float:
        """When a segment was last written to; 0 if it is gone."""
        with self._lock:
            return self._locations.written_at(name)

    def is_scattered(self, name: str) -> bool:
        """Whether a segment is worth rewriting because of its many small parts."""
        with self._lock:
            return self._locations.is_scattered(name)

    def record_bytes(self, location: Location) -> int:
        """The stored size of one object."""
        return header_bytes(location.form) + location.payload_bytes + self._locations.record_extra

    def fixed_bytes(self, name: str) -> int:
        """The size of a segment beyond its objects."""
        return self._locations.fixed_bytes(name)

    def release(self) -> None:
        """Close our segment, so that another process may continue it."""
        with self._lock:
            self.writer.release()

    def close(self) -> None:
        with self._lock:
            self.writer.rollback()
            self.writer.release()
            self._locations.close()
