"""What lies where in a blob store: the segments of a pool, their parts, and the place of each object.

Learnt from a list of the pool's blobs, the rows, and the index of each part. A part is durable as soon as it is listed,
so whatever is found may be relied on where its segment has a row. Objects are read from the cache of parts, and fetched
into it part by part: what is not needed stays away.
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
from relight.workspaces.pool.locations import Listed, Locations
from relight.workspaces.pool.locks import try_lock, unlock
from relight.workspaces.pool.segment import Location
from relight.workspaces.pool.segment_index import Index
from relight.workspaces.remote import part
from relight.workspaces.remote.prefix import RemotePrefix

FETCHERS: Final = 8
"""parts whose index is fetched at once"""
SCATTERED_PARTS: Final = 64
SCATTERED_BYTES: Final = 64 * 1024
"""a segment of many parts that are smaller than this on average is worth writing together"""


class Parts(Listed):
    """What is known of one segment: its parts, and what they hold."""

    __slots__ = ("_starts", "fetched", "flying", "sizes", "unsent", "word", "written_at")

    def __init__(self, word: str) -> None:
        super().__init__(-1, None, 0)
        self.word, self.written_at = word, 0.0
        self.sizes: dict[int, int] = {}
        """by where each part begins"""
        self._starts: list[int] = []
        self.unsent: dict[int, bytes] = {}
        """payloads by offset, of the part that is being written"""
        self.flying: dict[int, bytes] = {}
        """parts on their way, by where they begin"""
        self.fetched = 0
        """parts whose index came over the network"""

    def add(self, sizes: Mapping[int, int]) -> None:
        """More parts, by where they begin."""
        self.sizes.update(sizes)
        self._starts = sorted(self.sizes)
        self.end = max((self.end, *(start + size for start, size in sizes.items())))

    @property
    def is_whole(self) -> bool:
        """No part is missing between the first and the last, and none is empty."""
        return self._whole_up_to() == self.end and 0 not in self.sizes.values()

    def _whole_up_to(self) -> int:
        at = 0
        while self.sizes.get(at):  # not for ever at one that was emptied
            at += self.sizes[at]
        return at

    def take_index(self, packed: Index | None) -> None:
        """Believe an index of an earlier process as far as every part that it speaks of is there."""
        boundaries = {start + size for start, size in self.sizes.items()}
        if packed is not None and packed.covered in boundaries and packed.covered <= self._whole_up_to():
            self.packed = packed

    def unread(self) -> list[int]:
        """The parts that no index covers."""
        covered = self.packed.covered if self.packed is not None else 0
        return [start for start in self._starts if start >= covered]

    def part_at(self, offset: int) -> int | None:
        """The part an offset lies in."""
        at = bisect_right(self._starts, offset) - 1
        if at < 0 or offset >= self._starts[at] + self.sizes[self._starts[at]]:
            return None
        return self._starts[at]


class _Wanted(NamedTuple):
    name: str
    listed: Parts
    start: int


class RemoteLocations(Locations):
    """The segments of one pool in a blob store. Not thread-safe: the pool serialises."""

    record_extra = part.ROW_BYTES

    def __init__(self, directory: Path, key: str, rows: SegmentIndex, space: RemotePrefix) -> None:
        super().__init__(directory, key, rows)
        self.space, self.place = space, f"{space.place} ({key})"
        self._hot: tuple[str, bytes] = ("", b"")
        """the part that was fetched last: where the cache is too small for it, it is not fetched for every object"""

    # -- looking ----------------------------------------------------------------------------------------------

    def look(self, own: str | None = None) -> bool:
        if not self._is_stale:
            return False
        found = self._listing()
        self.rowed = self._rows.list_segments(self._key)  # after the list: what is listed had its row before
        for name in [gone for gone in self.listed if gone not in found and gone != own]:
            self.forget(name)
        wanted = [one for name, blobs in found.items() if name != own for one in self._note(name, blobs)]
        self._learn(wanted)
        self._forget_cached(found.keys() | ({own} if own is not None else set()))
        self._is_stale = False
        return True

    def reload(self, name: str) -> Parts | None:
        """One segment as it is now; None where nothing of it is left."""
        found = self._listing(f"{name}/").get(name)
        if found is None:
            return None
        self._learn(self._note(name, found))
        return self._parts(name)

    def _listing(self, below: str = "") -> dict[str, list[tuple[str, Blob]]]:
        """By segment: its blobs, with the word that their names begin with."""
        found: dict[str, list[tuple[str, Blob]]] = {}
        for word, blob in self.space.listed(f"{self._key}/{below}"):
            name = blob.key.split("/")[-2]
            found.setdefault(name, []).append((word, blob))
        return found

    def _note(self, name: str, blobs: list[tuple[str, Blob]]) -> list[_Wanted]:
        """Take note of a segment's parts; those whose index has to be read."""
        sizes = {int(blob.key.rpartition("/")[2], 16): blob.size_bytes for _, blob in blobs}
        known = self._parts(name)
        is_new = known is None or not known.sizes.items() <= sizes.items()
        listed = Parts(blobs[0][0]) if known is None or is_new else known
        before = set(listed.sizes)
        listed.add(sizes)
        listed.written_at = max(blob.written_at for _, blob in blobs)
        if is_new:
            listed.take_index(self._index(name, listed.end))
            self.listed[name] = listed
        return [_Wanted(name, listed, start) for start in listed.unread() if start not in before]

    def _learn(self, wanted: list[_Wanted]) -> None:
        if len(wanted) > 1:
            with ThreadPoolExecutor(min(FETCHERS, len(wanted))) as fetchers:
                found = list(fetchers.map(self._contents, wanted))
        else:
            found = [self._contents(one) for one in wanted]
        for one, contents in zip(wanted, found, strict=True):
            for ref, place in contents:
                one.listed.learn(ref, place)

    def _contents(self, one: _Wanted) -> part.Found:
        """What a part holds; nothing where it has gone meanwhile, or is nothing of ours."""
        size = one.listed.sizes[one.start]

        def read(at: int, length: int) -> bytes:
            if (kept := self.space.cache.get(self._key, part_name(one.name, one.start), at, length)) is not None:
                return kept
            one.listed.fetched += 1
            if size <= part.WHOLE_BYTES:
                return (self._fetched(one.listed, one.name, one.start) or b"")[at : at + length]
            return self.space.blobs.get_range(self._key_of(one.listed, one.name, one.start), at, length) or b""

        found = part.read_index(read, size, one.name, one.start)
        if found is None:
            self.space.cache.drop(self._key, part_name(one.name, one.start))
            found = part.read_index(read, size, one.name, one.start)
        if found is None and (data := self._fetched(one.listed, one.name, one.start)) is not None:
            found = part.scan(data, one.name, one.start)
        return found or []

    def _forget_cached(self, present: Iterable[str]) -> None:
        """Segments that are gone there are gone here: nothing outlives its session on another machine for long."""
        known = set(present)
        for one in self.space.cache.parts(self._key):
            if one.partition(".")[0] not in known:
                self.space.cache.drop(self._key, one)
        for path in (*self.directory.glob("*.idx"), *self.directory.glob("*.own")):
            if path.stem not in known and path.stem not in self.rowed:
                path.unlink(missing_ok=True)

    # -- reading ----------------------------------------------------------------------------------------------

    def payload(self, place: Location) -> bytes | None:
        listed = self._parts(place.segment)
        if listed is None:
            return None
        if (waiting := listed.unsent.get(place.offset)) is not None:
            return waiting
        start = listed.part_at(place.offset)
        if start is None:
            return None
        at, name = place.offset - start, part_name(place.segment, start)
        if (flying := listed.flying.get(start)) is not None:
            return flying[at : at + place.payload_bytes]
        data = self.space.cache.get(self._key, name, at, place.payload_bytes)
        if data is None or len(data) != place.payload_bytes:
            whole = self._fetched(listed, place.segment, start)
            if whole is None:
                return None
            data = whole[at : at + place.payload_bytes]
        if len(data) != place.payload_bytes:
            raise Corrupt(f"{self.place}: {name} is shorter than it was")
        return data

    def fetch_anew(self, place: Location) -> bool:
        listed = self._parts(place.segment)
        start = listed.part_at(place.offset) if listed is not None else None
        if listed is None or start is None or start in listed.flying or place.offset in listed.unsent:
            return False
        self.space.cache.drop(self._key, part_name(place.segment, start))
        self._hot = ("", b"")
        return True

    def _fetched(self, listed: Parts, name: str, start: int) -> bytes | None:
        """A whole part over the network, and into the cache; None where it is gone."""
        key = self._key_of(listed, name, start)
        hot, data = self._hot
        if hot == key:
            return data
        found = self.space.blobs.get(key)
        if found is not None:
            self.space.cache.put(self._key, part_name(name, start), found)
            self._hot = (key, found)
        return found

    def _key_of(self, listed: Parts, name: str, start: int) -> str:
        return f"{listed.word}{self.blob_key(name, start)}"

    def blob_key(self, name: str, start: int) -> str:
        """Without the word before it."""
        return f"{self._key}/{name}/{start:012x}"

    # -- one segment ------------------------------------------------------------------------------------------

    def _parts(self, name: str) -> Parts | None:
        found = self.listed.get(name)
        return found if isinstance(found, Parts) else None

    def begin(self, name: str, word: str) -> Parts:
        """A segment that this process has just made."""
        self.rowed |= {name}
        made = Parts(word)
        self.listed[name] = made
        return made

    def discard(self, name: str) -> None:
        found = [blob.key for _, blobs in self._listing(f"{name}/").items() for _, blob in blobs]
        self.space.blobs.delete(found)
        for one in self.space.cache.parts(self._key):
            if one.partition(".")[0] == name:
                self.space.cache.drop(self._key, one)
        for suffix in (".idx", ".own"):
            self.path(name, suffix).unlink(missing_ok=True)
        self.forget(name)

    def forget(self, name: str) -> None:
        self.listed.pop(name, None)
        self._is_stale = True

    def is_busy(self, name: str) -> bool:
        """Whether a process of this machine is writing it; of others nobody knows, and nobody needs to."""
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
        """What was learnt over the network is kept for the next process."""
        for name, listed in self.listed.items():
            if isinstance(listed, Parts) and listed.fetched:
                self.write_index(name)
        self.listed.clear()
        self._is_stale = True


def part_name(name: str, start: int) -> str:
    """As the cache calls it."""
    return f"{name}.{start:012x}"
