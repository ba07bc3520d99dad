"""What the writing ends of a local and a remote pool share: one own segment at a time, and how it is taken and left."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from relight.ports.workspace import SegmentIndex
from relight.workspaces.pool.disk import translate_errors
from relight.workspaces.pool.locations import ListedSegment, Locations
from relight.workspaces.pool.segment import Location

SEGMENT_BYTES: Final = 64 * 1024 * 1024


class OwnRecords(ABC):
    """The segment that this process writes, locked by it, and the records appended since the last sync."""

    def __init__(self, name: str, listed: ListedSegment) -> None:
        self.name, self._located = name, listed
        self._unsynced: list[tuple[bytes, Location | None]] = []
        """refs since the last sync, and their former location in this segment"""

    def note(self, ref: bytes, location: Location) -> None:
        """Record where an appended record is; `drop_unsynced` takes it back."""
        self._unsynced.append((ref, self._located.recent.get(ref)))
        self._located.add_record(ref, location)
        self._located.damaged.discard(ref)

    def drop_unsynced(self) -> None:
        """Forget the locations of what was appended since the last sync."""
        for ref, before in reversed(self._unsynced):
            if before is not None:
                self._located.recent[ref] = before
            else:
                self._located.recent.pop(ref, None)
        self._unsynced.clear()

    @abstractmethod
    def unlock(self) -> None:
        """Let other processes of this machine continue the segment."""


_Own = TypeVar("_Own", bound=OwnRecords)
_Listed = TypeVar("_Listed", bound=Locations)


class SegmentWriter(ABC, Generic[_Own, _Listed]):
    """Writes into one segment at a time. Not thread-safe: the pool serialises."""

    def __init__(self, locations: _Listed, key: str, rows: SegmentIndex, lost: Callable[[], None]) -> None:
        """`lost` is called whenever locations that were found before do not exist any longer."""
        self._locations, self._key, self._rows, self._lost = locations, key, rows, lost
        self.own: _Own | None = None
        self.quota_bytes: int | None = None
        """maximum total size of all segments; None: unlimited"""
        self.floor_bytes: int | None = None
        """minimum free space to leave on the disk; of no meaning where it only holds a cache"""

    @abstractmethod
    def sync(self) -> None:
        """Make everything appended so far durable."""

    @abstractmethod
    def _reuse_segment(self) -> _Own | None:
        """Continue a segment that no process is writing, so that segments stay few."""

    @abstractmethod
    def _create(self) -> _Own:
        """A new segment: its row first, durable, then what belongs to it."""

    def release(self) -> None:
        """Sync, write the index, and unlock the segment for other processes of this machine."""
        own = self.own
        if own is None:
            return
        self.sync()
        self._locations.write_index(own.name)
        self.own = None
        own.unlock()

    def start_segment(self) -> None:
        """Write the next records to a new segment."""
        self.release()
        with translate_errors(self._locations.directory):
            self.own = self._create()

    def _writable(self) -> _Own:
        if self.own is None:
            with translate_errors(self._locations.directory):
                self.own = self._reuse_segment() or self._create()
        return self.own
