"""The writing end of a pool: which segment is ours, and when it is written, synced, full or abandoned.

Order for a new segment: its row (durable), its file, its lock, its directory entry (synced).
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Sequence
from typing import Final

from relight.errors import OverQuota
from relight.ports.faults import point
from relight.system.durable import sync_data, sync_directory
from relight.workspaces.pool import segment
from relight.workspaces.pool.disk import (
    free_bytes,
    lock,
    store_error,
    try_lock,
    unlock,
)
from relight.workspaces.pool.locations import ListedSegment, Locations
from relight.workspaces.pool.segment import Location, Record
from relight.workspaces.pool.segment_writer import SEGMENT_BYTES, OwnRecords, SegmentWriter

BUFFER_BYTES: Final = 8 * 1024 * 1024


class OwnSegment(OwnRecords):
    """The segment this process writes, locked by it.

    Offsets in order: `durable` (survives a power cut) <= `written` (in the file) <= `end` (including the buffer).
    """

    def __init__(self, name: str, listed: ListedSegment) -> None:
        super().__init__(name, listed)
        self.listed = listed
        self.durable = self.written = self.end = listed.end
        self._buffer: list[bytes] = []

    def append(self, record: Record) -> int:
        """Append a record to the buffer; returns its size."""
        data = record.encode()
        size = len(record.payload)
        start = self.end + len(data) - size
        self.note(record.ref, Location(self.name, start, size, record.raw_bytes, record.form, record.base))
        self._buffer.append(data)
        self.end += len(data)
        return len(data)

    def holds_unwritten(self, location: Location) -> bool:
        return location.segment == self.name and segment.location_end(location) > self.written

    def flush(self) -> None:
        """Write the buffer to the file."""
        data = b"".join(self._buffer)
        done = 0
        while done < len(data):
            done += os.pwrite(self.listed.fd, memoryview(data)[done:] if done else data, self.written + done)
        self._buffer.clear()
        self.written += len(data)

    def sync(self) -> None:
        """Make everything written durable. After an error the caller must abandon the segment."""
        sync_data(self.listed.fd)
        self.durable = self.listed.end = self.written
        self._unsynced.clear()

    def drop_unsynced(self) -> None:
        """Forget the locations of what was appended since the last sync."""
        super().drop_unsynced()
        self._buffer.clear()

    def unlock(self) -> None:
        unlock(self.listed.fd)

    def truncate_to_durable(self) -> None:
        """Cut the file back to the last sync."""
        self.drop_unsynced()
        if self.written > self.durable:
            os.ftruncate(self.listed.fd, self.durable)
        self.written = self.end = self.durable

    def mark_failed(self) -> None:
        """Writing failed: drop what was not synced, and never use the segment again in this process."""
        self.drop_unsynced()
        self.listed.is_failed = True
        with contextlib.suppress(OSError):  # what cannot be cut off is a torn tail, which its checksums expose
            os.ftruncate(self.listed.fd, self.durable)


class Writer(SegmentWriter[OwnSegment, Locations]):
    """Writes into one segment at a time. Not thread-safe: the pool serialises."""

    def append(self, record: Record) -> tuple[str, int]:
        """Append a record; returns the segment's name and the record's size."""
        own = self._writable()
        size = own.append(record)
        if own.end - own.written > BUFFER_BYTES:
            self.check_room()
            self.flush()
        if own.end > SEGMENT_BYTES:
            self.release()
        return own.name, size

    def flush(self) -> None:
        """Write everything appended to the file."""
        own = self.own
        if own is None:
            return
        try:
            own.flush()
        except OSError as error:
            self._fail(own)
            raise store_error(error, self._locations.directory) from error

    def flush_for(self, location: Location) -> None:
        """Make sure that this location can be read from the file."""
        if self.own is not None and self.own.holds_unwritten(location):
            self.flush()

    def sync(self) -> None:
        """Make everything appended so far durable."""
        own = self.own
        if own is None or own.durable == own.end:
            return
        self.flush()
        point("snapshot.segment_written")
        try:
            own.sync()
        except OSError as error:
            self._fail(own)
            raise store_error(error, self._locations.directory) from error
        point("snapshot.segment_synced")

    def rollback(self) -> None:
        """Undo what was appended since the last `sync`."""
        own = self.own
        if own is None:
            return
        self._lost()
        try:
            own.truncate_to_durable()
        except OSError:
            self._fail(own)

    def estimate_bytes(self, records: Sequence[Record]) -> int:
        """The size these records would have in new segments."""
        total, end = 0, SEGMENT_BYTES + 1
        for record in records:
            if end > SEGMENT_BYTES:
                total, end = total + len(segment.MAGIC), len(segment.MAGIC)
            size = segment.header_bytes(record.form) + len(record.payload)
            total, end = total + size, end + size
        return total

    def check_room(self) -> None:
        """OverQuota if what was appended since the last `sync` exceeds the quota or the free-space floor."""
        own = self.own
        pending = own.end - own.durable if own is not None else 0
        if own is None or not pending:
            return
        where, takes = str(self._locations.directory), self._locations.end_bytes() + pending
        if self.quota_bytes is not None and takes > self.quota_bytes:
            raise OverQuota(where, "captured files would take", takes, self.quota_bytes)
        if self.floor_bytes is not None:
            left = free_bytes(own.listed.fd) - (own.end - own.written)
            if left < self.floor_bytes:
                raise OverQuota(where, "free space would be", left, self.floor_bytes)

    def abandon(self) -> None:
        """The segment's row or file is gone: drop everything since the last sync."""
        if self.own is not None:
            self.own.drop_unsynced()
            self.own = None
            self._lost()

    def _fail(self, own: OwnSegment) -> None:
        """Abandon a segment after an error; the next record goes to another one.

        A failed fdatasync is not retried: the kernel may have dropped the dirty pages, and a second one would report
        success.
        """
        own.mark_failed()
        self.own = None
        self._lost()

    # -- which segment ----------------------------------------------------------------------------------------

    def _create(self) -> OwnSegment:
        name = secrets.token_hex(8)
        self._rows.add_segment(self._key, name)
        point("snapshot.segment_rowed")
        fd = os.open(self._locations.path(name), os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        lock(fd)
        os.pwrite(fd, segment.MAGIC, 0)
        sync_directory(self._locations.directory)
        point("snapshot.segment_created")
        return OwnSegment(name, self._locations.add(name, fd))

    def _reuse_segment(self) -> OwnSegment | None:
        """Continue a segment that no process is writing, so that segments stay few."""
        for name, listed in sorted(self._locations.listed.items()):
            if name not in self._locations.registered or listed.is_failed or listed.end > SEGMENT_BYTES // 2:
                continue
            if not try_lock(listed.fd):
                continue
            if self._locations.read_new_records(name) == os.fstat(listed.fd).st_size:
                return OwnSegment(name, listed)
            unlock(listed.fd)  # a torn tail, or damage before whole records: do not append to it
        return None
