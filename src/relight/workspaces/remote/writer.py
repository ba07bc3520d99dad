"""The writing end of a remote pool: records are collected into parts, and parts are uploaded as blobs.

Order for a new segment: its row (durable), its lock file on this machine, its first part. A part is uploaded once and
never changed; a snapshot is returned only after all its parts are uploaded. The cache gets a part after the upload, so
nothing exists only on this machine.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from relight.errors import OverQuota, RelightError, StoreUnavailable
from relight.ports.faults import point
from relight.ports.workspace import SegmentIndex
from relight.system.durable import sync_directory
from relight.workspaces.pool.disk import lock, try_lock
from relight.workspaces.pool.segment import Location, Record
from relight.workspaces.pool.segment_writer import SEGMENT_BYTES, OwnRecords, SegmentWriter
from relight.workspaces.remote import part
from relight.workspaces.remote.locations import Parts, RemoteLocations, part_name

MAX_PARTS: Final = 512
"""a segment with more parts is not continued"""
UPLOADS: Final = 4
"""concurrent uploads"""


class OwnParts(OwnRecords):
    """The segment this process writes, locked by it."""

    def __init__(self, name: str, listed: Parts, lock_fd: int) -> None:
        super().__init__(name, listed)
        self.listed = listed
        self._lock_fd = lock_fd
        self.builder = part.PartBuilder(name, listed.end)
        self.sent: list[int] = []
        """starts of parts uploaded since the last sync"""

    @property
    def end(self) -> int:
        return self.builder.start + self.builder.size_bytes

    def append(self, record: Record) -> int:
        """Add a record to the part that is being built; returns its size."""
        location, size = self.builder.add(record)
        self.note(record.ref, location)
        self.listed.unsent[location.offset] = record.payload
        return size

    def seal_part(self) -> tuple[int, bytes]:
        """Seal the current part for upload, and begin the next one after it."""
        start, data = self.builder.start, self.builder.encode()
        self.listed.in_flight[start] = data
        self.listed.add({start: len(data)})
        self.listed.unsent.clear()
        self.sent.append(start)
        self.builder = part.PartBuilder(self.name, start + len(data))
        return start, data

    def mark_synced(self) -> None:
        """Everything appended so far is uploaded."""
        self.sent.clear()
        self._unsynced.clear()

    def drop_unsynced(self) -> None:
        """Forget the locations of what was appended since the last sync."""
        super().drop_unsynced()
        self.listed.unsent.clear()
        self.builder = part.PartBuilder(self.name, self.builder.start)

    def unlock(self) -> None:
        """Let other processes of this machine continue the segment."""
        os.close(self._lock_fd)


class RemoteWriter(SegmentWriter[OwnParts, RemoteLocations]):
    """Writes into one segment at a time. Not thread-safe: the pool serialises."""

    def __init__(self, locations: RemoteLocations, key: str, rows: SegmentIndex, lost: Callable[[], None]) -> None:
        """`lost` is called whenever locations that were found before do not exist any longer."""
        super().__init__(locations, key, rows, lost)
        self._uploaders: ThreadPoolExecutor | None = None
        self._in_flight: list[Future[None]] = []

    def append(self, record: Record) -> tuple[str, int]:
        """Append a record; returns the segment's name and the record's size."""
        own = self._writable()
        size = own.append(record)
        if own.builder.size_bytes > part.PART_BYTES:
            self.check_room()
            self._upload_in_background(own)
        if own.end > SEGMENT_BYTES:
            self.release()
        return own.name, size

    def flush_for(self, location: Location) -> None:
        """Nothing to do: what is not uploaded yet is read from memory."""

    def sync(self) -> None:
        """Upload everything appended: it survives the loss of this machine."""
        own = self.own
        if own is None or (not own.sent and not own.builder.size_bytes):
            return
        try:
            if own.builder.size_bytes:
                self._put(own.listed, own.name, *own.seal_part())
            self._wait_for_uploads()
        except BaseException:
            self._fail(own)
            raise
        own.mark_synced()
        point("upload.synced")

    def rollback(self) -> None:
        """Undo what was appended since the last `sync`; uploaded parts are deleted if possible."""
        own = self.own
        if own is None:
            return
        self._lost()
        if not own.sent:
            own.drop_unsynced()
            return
        doomed = [f"{own.listed.prefix}{self._locations.blob_key(own.name, start)}" for start in own.sent]
        self._fail(own)
        with contextlib.suppress(RelightError):  # else they stay as dead content until a sweep
            self._locations.remote.blobs.delete(doomed)

    def estimate_bytes(self, records: Sequence[Record]) -> int:
        """The size these records would have in new parts."""
        return part.estimate_bytes(records)

    def check_room(self) -> None:
        """OverQuota if what was appended since the last `sync` exceeds the quota."""
        own = self.own
        pending = own.builder.size_bytes if own is not None else 0
        if own is None or self.quota_bytes is None or not (pending or own.sent):
            return
        takes = self._locations.end_bytes() + pending
        if takes > self.quota_bytes:
            raise OverQuota(self._locations.location, "captured files would take", takes, self.quota_bytes)

    def abandon(self) -> None:
        """The segment's row is gone: drop everything since the last sync."""
        if self.own is not None:
            self._fail(self.own)

    def _fail(self, own: OwnParts) -> None:
        """Abandon a segment that failed or was swept; the next record goes to another one.

        A part whose upload failed may have arrived or not, so the segment is never continued.
        """
        self._stop_uploaders()
        own.drop_unsynced()
        own.listed.in_flight.clear()
        with contextlib.suppress(OSError):
            self._locations.path(own.name, ".own").unlink(missing_ok=True)  # so that no process continues it
        own.unlock()
        self._locations.forget(own.name)
        self.own = None
        self._lost()

    # -- uploading --------------------------------------------------------------------------------------------

    def _upload_in_background(self, own: OwnParts) -> None:
        """Upload a full part in the background while the next one is built; at most UPLOADS at a time."""
        if self._uploaders is None:
            self._uploaders = ThreadPoolExecutor(UPLOADS, thread_name_prefix="relight-upload")
        try:
            if len(self._in_flight) >= UPLOADS:
                self._in_flight.pop(0).result()
        except BaseException:
            self._fail(own)
            raise
        self._in_flight.append(self._uploaders.submit(self._put, own.listed, own.name, *own.seal_part()))

    def _wait_for_uploads(self) -> None:
        """Wait for all uploads; raises the error of one that failed."""
        while self._in_flight:
            self._in_flight.pop(0).result()
        self._stop_uploaders()

    def _stop_uploaders(self) -> None:
        """Wait for running uploads, whatever their outcome, and stop the threads."""
        self._in_flight.clear()
        if self._uploaders is not None:
            self._uploaders.shutdown()
            self._uploaders = None

    def _put(self, listed: Parts, name: str, start: int, data: bytes) -> None:
        key = f"{listed.prefix}{self._locations.blob_key(name, start)}"
        blobs = self._locations.remote.blobs
        point("upload.begun")
        # The key may exist because our first attempt succeeded and only its reply was lost: then the bytes are ours.
        if not blobs.put(key, data) and blobs.get(key) != data:
            raise StoreUnavailable(
                f"{blobs.location}: another writer has written {key}; this snapshot was not stored",
                hints=["try again; two machines must not share one local directory for content"],
            )
        point("upload.done")
        self._locations.remote.cache.put(self._key, part_name(name, start), data)
        listed.in_flight.pop(start, None)

    # -- which segment ----------------------------------------------------------------------------------------

    def _create(self) -> OwnParts:
        name, prefix = secrets.token_hex(8), self._locations.remote.own_prefix()
        self._rows.add_segment(self._key, name)
        point("snapshot.segment_rowed")
        lock_fd = self._open_lock(name, os.O_CREAT | os.O_EXCL)
        lock(lock_fd)
        sync_directory(self._locations.directory)
        return OwnParts(name, self._locations.begin(name, prefix), lock_fd)

    def _reuse_segment(self) -> OwnParts | None:
        """Continue a segment of this machine that no process is writing, so that segments stay few."""
        for name, listed in sorted(self._locations.listed.items()):
            if name not in self._locations.registered or not isinstance(listed, Parts) or not _has_room(listed):
                continue
            try:
                lock_fd = self._open_lock(name)
            except FileNotFoundError:
                continue  # no lock file: another machine's
            if try_lock(lock_fd):
                now = self._locations.reload(name)
                if now is not None and _has_room(now):
                    return OwnParts(name, now, lock_fd)
            os.close(lock_fd)
        return None

    def _open_lock(self, name: str, flags: int = 0) -> int:
        return os.open(self._locations.path(name, ".own"), os.O_RDWR | os.O_CLOEXEC | flags, 0o600)


def _has_room(listed: Parts) -> bool:
    return listed.is_whole and listed.end <= SEGMENT_BYTES // 2 and len(listed.sizes) < MAX_PARTS
