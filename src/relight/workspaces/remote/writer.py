"""The writing end of a pool that lies off the machine: records are gathered into parts, and parts are put into blobs.

Order for a new segment: its row (durable), the mark that it is ours (a locked file here), its first part. A part is put
once and never changed; a snapshot is named only after every part of it is there. A part whose upload failed may have
arrived or not: its segment is left for good, and what did arrive is dead until a sweep finds it.

Nothing is written here that is not off the machine: the cache gets a part after it was put.
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
from relight.workspaces.pool.disk import sync_directory, wrapped
from relight.workspaces.pool.locks import lock, try_lock
from relight.workspaces.pool.segment import Location, Record
from relight.workspaces.remote import part
from relight.workspaces.remote.locations import Parts, RemoteLocations, part_name

SEGMENT_BYTES: Final = 64 * 1024 * 1024
MAX_PARTS: Final = 512
"""a segment of more parts is not gone on with"""
UPLOADS: Final = 4
"""parts on their way at once"""


class OwnParts:
    """The segment this process writes."""

    def __init__(self, name: str, listed: Parts, mark: int) -> None:
        self.name, self.listed = name, listed
        self._mark = mark
        self.growing = part.Growing(name, listed.end)
        self.sent: list[int] = []
        """parts put since the last sync, by where they begin"""
        self._fresh: list[tuple[bytes, Location | None]] = []
        """refs since the last sync, and where each lay in this segment before"""

    @property
    def end(self) -> int:
        return self.growing.start + self.growing.size_bytes

    def append(self, record: Record) -> int:
        """Put a record behind the others; how many bytes it takes."""
        place, size = self.growing.add(record)
        self._fresh.append((record.ref, self.listed.recent.get(record.ref)))
        self.listed.learn(record.ref, place)
        self.listed.damaged.discard(record.ref)
        self.listed.unsent[place.offset] = record.payload
        return size

    def close_part(self) -> tuple[int, bytes]:
        """The part that was growing, ready to be put; the next one begins behind it."""
        start, data = self.growing.start, self.growing.sealed()
        self.listed.flying[start] = data
        self.listed.add({start: len(data)})
        self.listed.unsent.clear()
        self.sent.append(start)
        self.growing = part.Growing(self.name, start + len(data))
        return start, data

    def settle(self) -> None:
        """Everything is where it should be."""
        self.sent.clear()
        self._fresh.clear()

    def forget_fresh(self) -> None:
        """What was appended since the last sync does not exist."""
        for ref, before in reversed(self._fresh):
            if before is not None:
                self.listed.recent[ref] = before
            else:
                self.listed.recent.pop(ref, None)
        self._fresh.clear()
        self.listed.unsent.clear()
        self.growing = part.Growing(self.name, self.growing.start)

    def unmark(self) -> None:
        """Others of this machine may go on in it."""
        os.close(self._mark)


class RemoteWriter:
    """Writes into one segment at a time. Not thread-safe: the pool serialises."""

    def __init__(self, places: RemoteLocations, key: str, rows: SegmentIndex, lost: Callable[[], None]) -> None:
        """`lost` is told whenever places that were found before are there no longer."""
        self._places, self._key, self._rows, self._lost = places, key, rows, lost
        self.own: OwnParts | None = None
        self.quota_bytes: int | None = None
        """most that all segments may take; None: no bound"""
        self.floor_bytes: int | None = None
        """of this machine's disk, which only holds a cache: no reason to refuse anything"""
        self._uploaders: ThreadPoolExecutor | None = None
        self._flying: list[Future[None]] = []

    def append(self, record: Record) -> tuple[str, int]:
        """Behind the others; (the segment, how many bytes it takes)."""
        own = self._writable()
        size = own.append(record)
        if own.growing.size_bytes > part.PART_BYTES:
            self.check_room()
            self._send_aside(own)
        if own.end > SEGMENT_BYTES:
            self.release()
        return own.name, size

    def flush_for(self, place: Location) -> None:
        """What lies there can be read: until it is put, from memory."""

    def sync(self) -> None:
        """Everything appended is off the machine, and survives the loss of it."""
        own = self.own
        if own is None or (not own.sent and not own.growing.size_bytes):
            return
        try:
            if own.growing.size_bytes:
                self._put(own.listed, own.name, *own.close_part())
            self._land()
        except BaseException:
            self._leave(own)
            raise
        own.settle()
        point("upload.synced")

    def rollback(self) -> None:
        """Forget what was appended since the last `sync`; what was put already is taken back where that works."""
        own = self.own
        if own is None:
            return
        self._lost()
        if not own.sent:
            own.forget_fresh()
            return
        going = [f"{own.listed.word}{self._places.blob_key(own.name, start)}" for start in own.sent]
        self._leave(own)
        with contextlib.suppress(RelightError):  # else they are dead content, until a sweep
            self._places.space.blobs.delete(going)

    def would_take(self, records: Sequence[Record]) -> int:
        """What these records take when they are written anew."""
        return part.taken_bytes(records)

    def check_room(self) -> None:
        """OverQuota where what was appended since the last `sync` passes the quota."""
        own = self.own
        pending = own.growing.size_bytes if own is not None else 0
        if own is None or self.quota_bytes is None or not (pending or own.sent):
            return
        takes = self._places.end_bytes() + pending
        if takes > self.quota_bytes:
            raise OverQuota(self._places.place, "captured files would take", takes, self.quota_bytes)

    def release(self) -> None:
        """Put, indexed, and free for another process of this machine to go on in."""
        own = self.own
        if own is None:
            return
        self.sync()
        self._places.write_index(own.name)
        self.own = None
        own.unmark()

    def abandon(self) -> None:
        """Its row is gone: nothing since the last sync exists any more."""
        if self.own is not None:
            self._leave(self.own)

    def _leave(self, own: OwnParts) -> None:
        """It failed, or was swept: an error is told, never tried away, and the next record goes to another segment."""
        self._end_uploaders()
        own.forget_fresh()
        own.listed.flying.clear()
        with contextlib.suppress(OSError):
            self._places.path(own.name, ".own").unlink(missing_ok=True)  # so that nobody goes on in it
        own.unmark()
        self._places.forget(own.name)
        self.own = None
        self._lost()

    # -- putting ----------------------------------------------------------------------------------------------

    def _send_aside(self, own: OwnParts) -> None:
        """A part that is full goes its way while the next one grows; a few at a time."""
        if self._uploaders is None:
            self._uploaders = ThreadPoolExecutor(UPLOADS, thread_name_prefix="relight-upload")
        try:
            if len(self._flying) >= UPLOADS:
                self._flying.pop(0).result()
        except BaseException:
            self._leave(own)
            raise
        self._flying.append(self._uploaders.submit(self._put, own.listed, own.name, *own.close_part()))

    def _land(self) -> None:
        """All that are on their way have arrived."""
        while self._flying:
            self._flying.pop(0).result()
        self._end_uploaders()

    def _end_uploaders(self) -> None:
        """Nothing is on its way any more, arrived or not."""
        self._flying.clear()
        if self._uploaders is not None:
            self._uploaders.shutdown()
            self._uploaders = None

    def _put(self, listed: Parts, name: str, start: int, data: bytes) -> None:
        key = f"{listed.word}{self._places.blob_key(name, start)}"
        blobs = self._places.space.blobs
        point("upload.begun")
        if not blobs.put(key, data) and blobs.get(key) != data:  # ours, where only the answer to a first try was lost
            raise StoreUnavailable(
                f"{blobs.place}: somebody else has written {key}; nothing of this snapshot is kept",
                hints=["do it again; two machines may not share one local directory for content"],
            )
        point("upload.done")
        self._places.space.cache.put(self._key, part_name(name, start), data)
        listed.flying.pop(start, None)

    # -- which segment ----------------------------------------------------------------------------------------

    def _writable(self) -> OwnParts:
        if self.own is None:
            with wrapped(self._places.directory):
                self.own = self._adopt() or self._create()
        return self.own

    def start_segment(self) -> None:
        """The next records go to a segment of their own."""
        self.release()
        with wrapped(self._places.directory):
            self.own = self._create()

    def _create(self) -> OwnParts:
        name, word = secrets.token_hex(8), self._places.space.own_word()
        self._rows.add_segment(self._key, name)
        point("snapshot.segment_rowed")
        mark = self._marked(name, os.O_CREAT | os.O_EXCL)
        lock(mark)
        sync_directory(self._places.directory)
        return OwnParts(name, self._places.begin(name, word), mark)

    def _adopt(self) -> OwnParts | None:
        """Go on in a segment of this machine whose writer is gone, so that segments stay few."""
        for name, listed in sorted(self._places.listed.items()):
            if name not in self._places.rowed or not isinstance(listed, Parts) or not _has_room(listed):
                continue
            try:
                mark = self._marked(name)
            except FileNotFoundError:
                continue  # another machine's
            if try_lock(mark):
                now = self._places.reload(name)
                if now is not None and _has_room(now):
                    return OwnParts(name, now, mark)
            os.close(mark)
        return None

    def _marked(self, name: str, flags: int = 0) -> int:
        return os.open(self._places.path(name, ".own"), os.O_RDWR | os.O_CLOEXEC | flags, 0o600)


def _has_room(listed: Parts) -> bool:
    return listed.is_whole and listed.end <= SEGMENT_BYTES // 2 and len(listed.sizes) < MAX_PARTS
