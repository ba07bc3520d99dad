"""The content of one workspace and its forks: objects by hash, in segments that several processes share.

Promise: `has` is true only for objects that are durable or will be by the next `sync`, in a segment that had its row
when this pool last looked; only after `sync` may a snapshot that names them be returned.
Where objects lie: places.py. How they are written: writer.py. Both for content off the machine: far/. How objects are
made small: compress.py. It does not know what they mean, and not which of them are needed: sweep.py does.
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
from relight.workspaces.pool.disk import wrapped
from relight.workspaces.pool.locations import Locations
from relight.workspaces.pool.objects import OBJECT_MAX_BYTES, digest
from relight.workspaces.pool.segment import DELTA, PLAIN, Location, Record, header_bytes
from relight.workspaces.pool.writer import Writer
from relight.workspaces.remote.locations import RemoteLocations
from relight.workspaces.remote.prefix import RemotePrefix
from relight.workspaces.remote.writer import RemoteWriter

MAX_SURE: Final = 100_000
READ_TRIES: Final = 3
_NOTHING: Final[frozenset[str]] = frozenset()


class Pool:
    """Objects by hash. `used` collects the segments that were relied on, until somebody clears it."""

    def __init__(self, directory: Path, key: str, rows: SegmentIndex, space: RemotePrefix | None = None) -> None:
        """In files of this directory, or, where there is a `space`, off the machine with a cache in the directory."""
        self.directory, self.key, self.rows = directory / key, key, rows
        self.used: set[str] = set()
        self.stored_bytes = 0
        self._lock = threading.RLock()
        self._sure: dict[bytes, Location] = {}
        """found reliable, and marked as used, since the last look"""
        with wrapped(self.directory):
            for made in (directory, self.directory):
                private_directories.make(made)
        self.is_remote = space is not None
        self._places: Locations
        self.writer: Writer | RemoteWriter
        if space is None:
            self._places = Locations(self.directory, key, rows)
            self.writer = Writer(self._places, key, rows, self._sure.clear)
        else:
            self._places = far = RemoteLocations(self.directory, key, rows, space)
            self.writer = RemoteWriter(far, key, rows, self._sure.clear)

    @property
    def place(self) -> str:
        """Where it lies, as people are told."""
        return self._places.place

    # -- reading ----------------------------------------------------------------------------------------------

    def has(self, ref: bytes) -> bool:
        """Whether a snapshot may rely on the object; marks its segments as used."""
        return self._reliable(ref) is not None

    def _reliable(self, ref: bytes) -> Location | None:
        with self._lock:
            self._look()
            place = self._sure.get(ref)
            if place is not None:
                return place
            place, rowed = self._places.find(ref), self._places.rowed
            if place is None or place.segment not in rowed:
                return None
            if place.has_base:
                base = self._places.find_whole(place.base)
                if base is None or base.segment not in rowed:
                    return None
                self.used.add(base.segment)
            self.used.add(place.segment)
            if len(self._sure) >= MAX_SURE:
                self._sure.clear()
            self._sure[ref] = place
            return place

    def forget_used(self) -> None:
        """From here on `used` collects anew."""
        with self._lock:
            self.used.clear()
            self._sure.clear()

    def find(self, ref: bytes) -> Location | None:
        """Where an object lies, with or without a row."""
        with self._lock:
            self._look()
            place = self._places.find(ref)
            if place is None:
                self.look_again()
                place = self._places.find(ref)
            return place

    def found_outside(self, ref: bytes, avoid: Set[str]) -> Location | None:
        """As `find`, where there is a choice not in these segments."""
        with self._lock:
            self._look()
            return self._places.find(ref, avoid)

    def whole(self, ref: bytes, avoid: Set[str] = _NOTHING) -> Location | None:
        """As `found_outside`, where it is no difference itself: what others may be differences from."""
        with self._lock:
            self._look()
            place = self._places.find_whole(ref, avoid)
            if place is None:
                self.look_again()
                place = self._places.find_whole(ref, avoid)
            return place

    def read(self, ref: bytes) -> bytes:
        """The object, checked by its hash; `Corrupt` where it is missing or damaged."""
        return self.read_based(ref)[0]

    def read_based(self, ref: bytes) -> tuple[bytes, Base]:
        """The object, and the whole one it is a difference from or is itself."""
        for _ in range(READ_TRIES):  # a sweep may move it while we read
            found = self._read_once(ref)
            if found is not None:
                return found
            self.look_again()
        place = self.find(ref)
        why = "is missing" if place is None or not place.has_base else "has lost the one it is a difference from"
        raise Corrupt(f"object {ref.hex()[:12]} {why} in {self._places.place}")

    def _read_once(self, ref: bytes) -> tuple[bytes, Base] | None:
        place = self.find(ref)
        if place is None:
            return None
        if not place.has_base:
            data = self._unpacked(ref, place)
            return None if data is None else (data, Base(ref, data))
        under = self.whole(place.base)
        base = self._unpacked(place.base, under) if under is not None else None
        data = self._unpacked(ref, place, base) if base is not None else None
        return None if data is None or base is None else (data, Base(place.base, base))

    def _unpacked(self, ref: bytes, place: Location, base: bytes = b"") -> bytes | None:
        try:
            return self._checked(ref, place, base)
        except Corrupt:
            with self._lock:
                may_help = self._places.fetch_anew(place)
        try:
            if may_help:
                return self._checked(ref, place, base)
        except Corrupt:
            may_help = False
        with self._lock:
            self._places.damage(place.segment, ref)  # stored again where its content is at hand
            self._sure.pop(ref, None)
        raise Corrupt(f"object {ref.hex()[:12]} is damaged in {self._places.place}, {place.segment}")

    def _checked(self, ref: bytes, place: Location, base: bytes) -> bytes | None:
        payload = self._payload(place)
        if payload is None:
            return None
        data = compress.unpack(place.form, payload, place.raw_bytes, base)
        if digest(data) != ref:
            raise Corrupt("it has another hash")
        return data

    def _payload(self, place: Location) -> bytes | None:
        """The bytes as stored; None where they are gone: they may have been copied on."""
        with self._lock:
            self.writer.flush_for(place)
            return self._places.payload(place)

    def payload(self, place: Location) -> bytes | None:
        """As stored, for copying on; None where it is gone."""
        return self._payload(place)

    # -- writing ----------------------------------------------------------------------------------------------

    def put(self, ref: bytes, data: bytes, former: bytes | None = None) -> None:
        """Store an object unless it is there, as a difference from its former version where that is smaller."""
        if len(data) > OBJECT_MAX_BYTES:
            raise ValueError("an object over its bound; callers cut large files into chunks")
        if self._reliable(ref) is None:
            worth = former is not None and len(data) >= compress.DELTA_LEAST_BYTES
            self.append(compress.pack(ref, data, self._base(former) if worth and former is not None else None))

    def _base(self, former: bytes) -> Base | None:
        """The whole object under a former version, where one may rely on it."""
        place = self._reliable(former)
        if place is not None and place.has_base:
            former = place.base
            place = self._reliable(former)
        if place is None or place.has_base or place.raw_bytes > compress.BASE_MAX_BYTES:
            return None
        data = self._unpacked(former, place)
        return Base(former, data) if data is not None else None

    def put_based(self, ref: bytes, data: bytes, base: Base | None) -> Base | None:
        """As `put`, with the base at hand; what the next version may be a difference from."""
        there = self._reliable(ref)
        if there is not None:  # files went back to what they were
            return base if there.has_base else Base(ref, data)
        under = self._reliable(base.ref) if base is not None else None
        record = compress.pack(ref, data, base if under is not None and not under.has_base else None)
        self.append(record)
        return base if record.form >= DELTA else Base(ref, data)

    def put_hashes(self, ref: bytes, data: bytes) -> None:
        """As `put`, for objects that are hashes and little else: compression would only take time."""
        if self._reliable(ref) is None:
            self.append(Record(ref, PLAIN, len(data), data))

    def append(self, record: Record) -> None:
        """Write a record to our own segment."""
        with self._lock:
            self._look()
            name, size = self.writer.append(record)
            self.stored_bytes += size
            self.used.add(name)

    def sync(self) -> None:
        """Everything put so far survives a power cut after this."""
        with self._lock:
            self.writer.sync()

    def rollback(self) -> None:
        """Forget what was put since the last `sync`: somebody failed half-way."""
        with self._lock:
            self.writer.rollback()

    def check_room(self) -> None:
        """OverQuota where what was put since the last `sync` passes the quota or the floor; nothing is written then."""
        with self._lock:
            self.writer.check_room()

    def start_segment(self) -> None:
        """The next records go to a segment of their own."""
        with self._lock:
            self._look()
            self.writer.start_segment()

    # -- what lies where --------------------------------------------------------------------------------------

    def look_again(self) -> None:
        """Learn what other processes did: new segments, new records, rows that are gone."""
        with self._lock:
            self._places.doubt()
            self._look()

    def _look(self) -> None:
        own = self.writer.own
        if not self._places.look(own.name if own is not None else None):
            return
        self._sure.clear()
        if own is not None and (own.name not in self._places.listed or own.name not in self._places.rowed):
            self.writer.abandon()

    @property
    def rowed(self) -> frozenset[str]:
        with self._lock:
            self._look()
            return self._places.rowed

    def files(self) -> dict[str, int]:
        """Every segment and its size, with or without a row, as of the last look: what was made since is not judged."""
        with self._lock:
            self._look()
            return self._places.sizes()

    def objects_in(self, name: str) -> list[tuple[bytes, Location]]:
        with self._lock:
            self._look()
            listed = self._places.listed.get(name)
            return list(listed) if listed is not None else []

    def discard(self, name: str) -> None:
        """Remove the content of a segment whose row is gone."""
        with self._lock, wrapped(self.directory):
            if self._is_own(name):
                self.writer.abandon()
            self._places.discard(name)

    def _is_own(self, name: str) -> bool:
        return self.writer.own is not None and self.writer.own.name == name

    def is_busy(self, name: str) -> bool:
        """Whether some process is writing this segment, as far as can be seen from here."""
        with self._lock:
            return self._is_own(name) or self._places.is_busy(name)

    def written_at(self, name: str) -> float:
        """When a segment was last written to; the beginning of time where it is gone."""
        with self._lock:
            return self._places.written_at(name)

    def is_scattered(self, name: str) -> bool:
        """Whether a segment is worth writing together, though nothing of it is dead."""
        with self._lock:
            return self._places.is_scattered(name)

    def record_bytes(self, place: Location) -> int:
        """What one object takes."""
        return header_bytes(place.form) + place.payload_bytes + self._places.record_extra

    def fixed_bytes(self, name: str) -> int:
        """What a segment takes beyond its objects."""
        return self._places.fixed_bytes(name)

    def release(self) -> None:
        """Let another process go on in our segment."""
        with self._lock:
            self.writer.release()

    def close(self) -> None:
        with self._lock:
            self.writer.rollback()
            self.writer.release()
            self._places.close()
