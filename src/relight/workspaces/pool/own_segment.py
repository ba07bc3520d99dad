"""The segment this process writes: locked by it, buffered, made durable by `sync`, taken back to the last one.

Numbers in order: `durable` (survives a power cut) ≤ `written` (in the file) ≤ `end` (with what is buffered).
"""

from __future__ import annotations

import contextlib
import os

from relight.workspaces.pool import segment
from relight.workspaces.pool.locations import Listed
from relight.workspaces.pool.segment import Location, Record
from relight.workspaces.pool.sync import sync_data


class OwnSegment:
    """One open segment."""

    def __init__(self, name: str, listed: Listed) -> None:
        self.name, self.listed = name, listed
        self.durable = self.written = self.end = listed.end
        self._buffer: list[bytes] = []
        self._fresh: list[tuple[bytes, Location | None]] = []
        """refs since the last sync, and where each lay in this segment before"""

    def append(self, record: Record) -> int:
        """Put a record behind the others; how many bytes it takes."""
        data = record.encode()
        size = len(record.payload)
        start = self.end + len(data) - size
        self._fresh.append((record.ref, self.listed.recent.get(record.ref)))
        self.listed.learn(record.ref, Location(self.name, start, size, record.raw_bytes, record.form, record.base))
        self.listed.damaged.discard(record.ref)
        self._buffer.append(data)
        self.end += len(data)
        return len(data)

    def holds_unwritten(self, place: Location) -> bool:
        return place.segment == self.name and segment.place_end(place) > self.written

    def flush(self) -> None:
        """Everything buffered is in the file."""
        data = b"".join(self._buffer)
        done = 0
        while done < len(data):
            done += os.pwrite(self.listed.fd, memoryview(data)[done:] if done else data, self.written + done)
        self._buffer.clear()
        self.written += len(data)

    def sync(self) -> None:
        """Everything written survives a power cut. An error is final: who calls gives the segment up."""
        sync_data(self.listed.fd)
        self.durable = self.listed.end = self.written
        self._fresh.clear()

    def forget_fresh(self) -> None:
        """What was appended since the last sync does not exist."""
        for ref, before in reversed(self._fresh):
            if before is not None:
                self.listed.recent[ref] = before
            else:
                self.listed.recent.pop(ref, None)
        self._fresh.clear()
        self._buffer.clear()

    def take_back(self) -> None:
        """As it was at the last sync."""
        self.forget_fresh()
        if self.written > self.durable:
            os.ftruncate(self.listed.fd, self.durable)
        self.written = self.end = self.durable

    def leave(self) -> None:
        """Writing it failed: nothing since the last sync exists, and nobody in this process trusts it further."""
        self.forget_fresh()
        self.listed.is_left = True
        with contextlib.suppress(OSError):  # what cannot be cut off is a torn tail, and never believed
            os.ftruncate(self.listed.fd, self.durable)
