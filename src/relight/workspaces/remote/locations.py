"""Locations in a blob store: the segments of a pool, their parts, and where each object is.

Learned from a list of the pool's blobs, the store's rows, and the index of each part. A part is durable as soon as it
is listed, so a snapshot may depend on it if its segment is registered. Objects are read from the cache of parts, and
fetched into it part by part.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

from relight.errors import Corrupt
from relight.ports.blobs import Blob
from relight.ports.workspace import SegmentIndex
from relight.workspaces.pool.disk import try_lock, unlock
from relight.workspaces.pool.locations import ListedSegment, Locations
from relight.workspaces.pool.segment import Location
from relight.workspaces.pool.segment_index import Index
from relight.workspaces.remote import part
from relight.workspaces.remote.prefix import RemotePrefix

FETCHERS: Final = 8
"""indexes fetched concurrently"""
SCATTERED_PARTS: Final = 64
SCATTERED_BYTES: Final = 64 * 1024
"""a segment of more parts than this, smaller than this on average, is worth rewriting"""


class Parts(ListedSegment):
    """What this process knows of one segment: its parts, and their objects."""

    __slots__ = ("_starts", "fetched", "in_flight", "prefix", "sizes", "unsent", "written_at")

    def __init__(self, prefix: str) -> None:
        super().__init__(-1, None, 0)
        self.prefix, self.written_at = prefix, 0.0
        self.sizes: dict[int, int] = {}
        """size of each part, by its start"""
        self._starts: list[int] = []
        self.unsent: dict[int, bytes] = {}
        """payloads by offset, of the part that is being built"""
        self.in_flight: dict[int, bytes] = {}
        """parts being uploaded, by their start"""
        self.fetched = 0
        """parts whose index was fetched over the network"""

    def add(self, sizes: Mapping[int, int]) -> None:
        """Add parts: sizes by start."""
        self.sizes.update(sizes)
        self._starts = sorted(self.sizes)
        self.end = max((self.end, *(start + size for start, size in sizes.items())))

    @property
    def is_whole(self) -> bool:
        """True if no part is missing between the first and the last, and none is empty."""
        return self._whole_up_to() == self.end and 0 not in self.sizes.values()

    def _whole_up_to(self) -> int:
        at = 0
        while self.sizes.get(at):  # stops at an emptied part too, where it would loop without end
            at += self.sizes[at]
        return at

    def use_index(self, packed: Index | None) -> None:
        """Use a cached index if every part that it covers exists."""
        boundaries = {start + size for start, size in self.sizes.items()}
        if packed is not None and packed.covered in boundaries and packed.covered <= self._whole_up_to():
            self.packed = packed

    def unread(self) -> list[int]:
        """The starts of parts that the cached index does not cover."""
        covered = self.packed.covered if self.packed is not None else 0
        return [start for start in self._starts if start >= covered]

    def part_at(self, offset: int) -> int | None:
        """The start of the part that contains an offset."""
        at = bisect_right(self._starts, offset) - 1
        if at < 0 or offset >= self._starts[at] + self.sizes[self._starts[at]]:
            return None
        return self._starts[at]


class _UnreadPart(NamedTuple):
    name: str
    listed: Parts
    start: int


class RemoteLocations(Locations):
    """The segments of one pool in a blob store. Not thread-safe: the pool serialises."""

    record_extra = part.ROW_BYTES

    def __init__(self, directory: Path, key: str, rows: SegmentIndex, remote: RemotePrefix) -> None:
        super().__init__(directory, key, rows)
        self.remote, self.location = remote, f"{remote.location} ({key})"
        self._last_fetched: tuple[str, bytes] = ("", b"")
        """the part fetched last: if the cache is too small for it, it is not fetched again for every object"""

    # -- refreshing -------------------------------------------------------------------------------------------

    def refresh_if_stale(self, own: str | None = None) -> bool:
        if not self._is_stale:
            return False
        found = self._listing()
        self.registered = self._rows.list_segments(self._key)  # after the list: what is listed had its row before
        for name in [gone for gone in self.listed if gone not in found and gone != own]:
            self.forget(name)
        unread = [one for name, blobs in found.items() if name != own for one in self._record_parts(name, blobs)]
        self._read_indexes(unread)
        self._forget_cached(found.keys() | ({own} if own is not None else set()))
        self._is_stale = False
        return True

    def reload(self, name: str) -> Parts | None:
        """One segment as it is now; None if nothing of it is left."""
        found = self._listing(f"{name}/").get(name)
        if found is None:
            return None
        self._read_indexes(self._record_parts(name, found))
        return self._parts(name)

    def _listing(self, below: str = "") -> dict[str, list[tuple[str, Blob]]]:
        """The blobs of each segment, with their store prefix."""
        found: dict[str, list[tuple[str, Blob]]] = {}
        for prefix, blob in self.remote.listed(f"{self._key}/{below}"):
            name = blob.key.split("/")[-2]
            found.setdefault(name, []).append((prefix, blob))
        return found

    def _record_parts(self, name: str, blobs: list[tuple[str, Blob]]) -> list[_UnreadPart]:
        """Record a segment's parts; returns those whose index has to be read."""
        sizes = {int(blob.key.rpartition("/")[2], 16): blob.size_bytes for _, blob in blobs}
        known = self._parts(name)
        is_new = known is None or not known.sizes.items() <= sizes.items()
        listed = Parts(blobs[0][0]) if known is None or is_new else known
        before = set(listed.sizes)
        listed.add(sizes)
        listed.written_at = max(blob.written_at for _, blob in blobs)
        if is_new:
            listed.use_index(self._index(name, listed.end))
            self.listed[name] = listed
        return [_UnreadPart(name, listed, start) for start in listed.unread() if start not in before]

    def _read_indexes(self, unread: list[_UnreadPart]) -> None:
        if len(unread) > 1:
            with ThreadPoolExecutor(min(FETCHERS, len(unread))) as fetchers:
                found = list(fetchers.map(self._read_index, unread))
        else:
            found = [self._read_index(one) for one in unread]
        for one, contents in zip(unread, found, strict=True):
            for ref, location in contents:
                one.listed.add_record(ref, location)

    def _read_index(self, one: _UnreadPart) -> part.Found:
        """The objects of a part; none if it was deleted meanwhile, or is not a valid part."""
        size = one.listed.sizes[one.start]

        def read(at: int, length: int) -> bytes:
            if (cached := self.remote.cache.get(self._key, part_name(one.name, one.start), at, length)) is not None:
                return cached
            one.listed.fetched += 1
            if size <= part.WHOLE_BYTES:
                return (self._fetch(one.listed, one.name, one.start) or b"")[at : at + length]
            return self.remote.blobs.get_range(self._key_of(one.listed, one.name, one.start), at, length) or b""

        found = part.read_index(read, size, one.name, one.start)
        if found is None:
            self.remote.cache.drop(self._key, part_name(one.name, one.start))
            found = part.read_index(read, size, one.name, one.start)
        if found is None and (data := self._fetch(one.listed, one.name, one.start)) is not None:
            found = part.scan(data, one.name, one.start)
        return found or []

    def _forget_cached(self, present: Iterable[str]) -> None:
        """Drop the cache of deleted segments: content must not outlive its session on another machine."""
        known = set(present)
        for one in self.remote.cache.parts(self._key):
            if one.partition(".")[0] not in known:
                self.remote.cache.drop(self._key, one)
        for path in (*self.directory.glob("*.idx"), *self.directory.glob("*.own")):
            if path.stem not in known and path.stem not in self.registered:
                path.unlink(missing_ok=True)

    # -- reading ----------------------------------------------------------------------------------------------

    def payload(self, location: Location) -> bytes | None:
        listed = self._parts(location.segment)
        if listed is None:
            return None
        if (waiting := listed.unsent.get(location.offset)) is not None:
            return waiting
        start = listed.part_at(location.offset)
        if start is None:
            return None
        at, name = location.offset - start, part_name(location.segment, start)
        if (in_flight := listed.in_flight.get(start)) is not None:
            return in_flight[at : at + location.payload_bytes]
        data = self.remote.cache.get(self._key, name, at, location.payload_bytes)
        if data is None or len(data) != location.payload_bytes:
            whole = self._fetch(listed, location.segment, start)
            if whole is None:
                return None
            data = whole[at : at + location.payload_bytes]
        if len(data) != location.payload_bytes:
            raise Corrupt(f"{self.location}: {name} is shorter than it was")
        return data

    def drop_cached(self, location: Location) -> bool:
        listed = self._parts(location.segment)
        start = listed.part_at(location.offset) if listed is not None else None
        if listed is None or start is None or start in listed.in_flight or location.offset in listed.unsent:
            return False
        self.remote.cache.drop(self._key, part_name(location.segment, start))
        self._last_fetched = ("", b"")
        return True

    def _fetch(self, listed: Parts, name: str, start: int) -> bytes | None:
        """Fetch a whole part into the cache; None if it is gone."""
        key = self._key_of(listed, name, start)
        hot, data = self._last_fetched
        if hot == key:
            return data
        found = self.remote.blobs.get(key)
        if found is not None:
            self.remote.cache.put(self._key, part_name(name, start), found)
            self._last_fetched = (key, found)
        return found

    def _key_of(self, listed: Parts, name: str, start: int) -> str:
        return f"{listed.prefix}{self.blob_key(name, start)}"

    def blob_key(self, name: str, start: int) -> str:
        """The blob key of a part, without the store prefix."""
        return f"{self._key}/{name}/{start:012x}"

    # -- one segment ------------------------------------------------------------------------------------------

    def _parts(self, name: str) -> Parts | None:
        found = self.listed.get(name)
        return found if isinstance(found, Parts) else None

    def begin(self, name: str, prefix: str) -> Parts:
        """Add a segment that this process has just created."""
        self.registered |= {name}
        made = Parts(prefix)
        self.listed[name] = made
        return made

    def discard(self, name: str) -> None:
        found = [blob.key for _, blobs in self._listing(f"{name}/").items() for _, blob in blobs]
        self.remote.blobs.delete(found)
        for one in self.remote.cache.parts(self._key):
            if one.partition(".")[0] == name:
                self.remote.cache.drop(self._key, one)
        for suffix in (".idx", ".own"):
            self.path(name, suffix).unlink(missing_ok=True)
        self.forget(name)

    def forget(self, name: str) -> None:
        self.listed.pop(name, None)
        self._is_stale = True

    def is_busy(self, name: str) -> bool:
        """Whether a process of this machine is writing it; other machines cannot be seen, and need not be."""
        try:
            fd = os.open(self.path(name, ".own"), os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            if not try_lock(fd):
                return True
            unlock(fd)
            return False
        finally:
            os.close(fd)

    def written_at(self, name: str) -> float:
        listed = self._parts(name)
        return listed.written_at if listed is not None else 0.0

    def end_bytes(self) -> int:
        return sum(self.sizes().values())

    def sizes(self) -> dict[str, int]:
        return {name: sum(listed.sizes.values()) for name, listed in self.listed.items() if isinstance(listed, Parts)}

    def fixed_bytes(self, name: str) -> int:
        listed = self._parts(name)
        return len(listed.sizes) * part.FIXED_BYTES if listed is not None else 0

    def is_scattered(self, name: str) -> bool:
        listed = self._parts(name)
        count = len(listed.sizes) if listed is not None else 0
        return listed is not None and count > SCATTERED_PARTS and sum(listed.sizes.values()) < count * SCATTERED_BYTES

    def write_index(self, name: str) -> None:
        listed = self._parts(name)
        if listed is not None and listed.is_whole and listed.sizes:
            super().write_index(name)

    def close(self) -> None:
        """Write the indexes that were fetched over the network, for the next process."""
        for name, listed in self.listed.items():
            if isinstance(listed, Parts) and listed.fetched:
                self.write_index(name)
        self.listed.clear()
        self._is_stale = True


def part_name(name: str, start: int) -> str:
    """The name of a part in the cache."""
    return f"{name}.{start:012x}"
