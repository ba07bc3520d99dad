"""The writing end of a pool: which segment is ours, when it is written, synced, full, or given up.

Order for a new segment: its row (durable), its file, its lock, its directory entry (synced). An error while writing
forgets everything since the last `sync`; a failed fdatasync is not tried again, its segment is left for good.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Sequence
from typing import Final

from relight.errors import OverQuota
from relight.ports.faults import point
from relight.ports.workspace import SegmentIndex
from relight.workspaces.pool import segment
from relight.workspaces.pool.disk import free_bytes, sync_directory, translate, wrapped
from relight.workspaces.pool.locations import Locations
from relight.workspaces.pool.locks import lock, try_lock, unlock
from relight.workspaces.pool.own_segment import OwnSegment
from relight.workspaces.pool.segment import Location, Record

SEGMENT_BYTES: Final = 64 * 1024 * 1024
BUFFER_BYTES: Final = 8 * 1024 * 1024


class Writer:
    """Writes into one segment at a time. Not thread-safe: the pool serialises."""

    def __init__(self, places: Locations, key: str, rows: SegmentIndex, lost: Callable[[], None]) -> None:
        """`lost` is told whenever places that were found before are there no longer."""
        self._places, self._key, self._rows, self._lost = places, key, rows, lost
        self.own: OwnSegment | None = None
        self.quota_bytes: int | None = None
        """most that all segments may take; None: no bound"""
        self.floor_bytes: int | None = None
        """least that must stay free on the disk"""

    def append(self, record: Record) -> tuple[str, int]:
        """Behind the others; (the segment, how many bytes it takes)."""
        own = self._writable()
        size = own.append(record)
        if own.end - own.written > BUFFER_BYTES:
            self.check_room()
            self.flush()
        if own.end > SEGMENT_BYTES:
            self.release()
        return own.name, size

    def flush(self) -> None:
        """Everything appended is in the file."""
        own = self.own
        if own is None:
            return
        try:
            own.flush()
        except OSError as error:
            self._leave(own)
            raise translate(error, self._places.directory) from error

    def flush_for(self, place: Location) -> None:
        """What lies there can be read from the file."""
        if self.own is not None and self.own.holds_unwritten(place):
            self.flush()

    def sync(self) -> None:
        """Everything appended survives a power cut."""
        own = self.own
        if own is None or own.durable == own.end:
            return
        self.flush()
        point("snapshot.segment_written")
        try:
            own.sync()
        except OSError as error:
            self._leave(own)
            raise translate(error, self._places.directory) from error
        point("snapshot.segment_synced")

    def rollback(self) -> None:
        """Forget what was appended since the last `sync`."""
        own = self.own
        if own is None:
            return
        self._lost()
        try:
            own.take_back()
        except OSError:
            self._leave(own)

    def would_take(self, records: Sequence[Record]) -> int:
        """What these records take in new segments, each closed once it is full."""
        total, end = 0, SEGMENT_BYTES + 1
        for record in records:
            if end > SEGMENT_BYTES:
                total, end = total + len(segment.MAGIC), len(segment.MAGIC)
            size = segment.header_bytes(record.form) + len(record.payload)
            total, end = total + size, end + size
        return total

    def check_room(self) -> None:
        """OverQuota where what was appended since the last `sync` passes the quota or the floor."""
        own = self.own
        pending = own.end - own.durable if own is not None else 0
        if own is None or not pending:
            return
        where, takes = str(self._places.directory), self._places.end_bytes() + pending
        if self.quota_bytes is not None and takes > self.quota_bytes:
            raise OverQuota(where, "captured files would take", takes, self.quota_bytes)
        if self.floor_bytes is not None:
            left = free_bytes(own.listed.fd) - (own.end - own.written)
            if left < self.floor_bytes:
                raise OverQuota(where, "free space would be", left, self.floor_bytes)

    def release(self) -> None:
        """Synced, indexed, and free for another process to go on in."""
        own = self.own
        if own is None:
            return
        self.sync()
        self._places.write_index(own.name)
        self.own = None
        unlock(own.listed.fd)

    def abandon(self) -> None:
        """Its row or its file is gone: nothing since the last sync exists any more."""
        if self.own is not None:
            self.own.forget_fresh()
            self.own = None
            self._lost()

    def _leave(self, own: OwnSegment) -> None:
        """Writing failed: an error is told, never tried away, and the next record goes to another segment."""
        own.leave()
        self.own = None
        self._lost()

    # -- which segment ----------------------------------------------------------------------------------------

    def _writable(self) -> OwnSegment:
        if self.own is None:
            with wrapped(self._places.directory):
                self.own = self._adopt() or self._create()
        return self.own

    def start_segment(self) -> None:
        """The next records go to a segment of their own."""
        self.release()
        with wrapped(self._places.directory):
            self.own = self._create()

    def _create(self) -> OwnSegment:
        name = secrets.token_hex(8)
        self._rows.add_segment(self._key, name)
        point("snapshot.segment_rowed")
        fd = os.open(self._places.path(name), os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        lock(fd)
        os.pwrite(fd, segment.MAGIC, 0)
        sync_directory(self._places.directory)
        point("snapshot.segment_created")
        return OwnSegment(name, self._places.add(name, fd))

    def _adopt(self) -> OwnSegment | None:
        """Go on in a segment whose writer is gone, so that segments stay few."""
        for name, listed in sorted(self._places.listed.items()):
            if name not in self._places.rowed or listed.is_left or listed.end > SEGMENT_BYTES // 2:
                continue
            if not try_lock(listed.fd):
                continue
            if self._places.read_on(name) == os.fstat(listed.fd).st_size:
                return OwnSegment(name, listed)
            unlock(listed.fd)  # a torn tail, or damage before whole records: nothing is cut off, it is left as it is
        return None
