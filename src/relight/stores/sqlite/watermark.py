"""What was told: for every session the newest seq that anybody was told is durable, in a small file of its own.

SQLite takes a damaged write-ahead log for one that ended earlier, and would serve a shorter history without a word.
So after each COMMIT, before its writers are told, their seqs are written here; a session whose head stands below what
was told has lost acknowledged steps, and is treated like one whose head cannot be read. Slot 0 does the same for
changes that are no steps (names, labels, deletions), by counting them.

It is a witness, not a part of the truth: it is not synced, because after a power cut an older word is still true, and
a slot that cannot be read says nothing. One slot of 8 bytes a session, by its number; no text of any session. The file
is mapped, because a write a commit would cost more than all the rest of this; its blocks are allocated before.
"""

from __future__ import annotations

import mmap
import os
import threading
from collections.abc import Iterable
from pathlib import Path
from struct import Struct
from typing import Final
from zlib import crc32

from relight.stores.sqlite.files import FILE_MODE

SLOT_BYTES: Final = 8
CHANGES: Final = 0
"""the slot of no session: how many changes other than steps were told"""
_GROWTH_BYTES: Final = 64 * 1024
_LOOK_BACK: Final = 64
"""slots looked at for the last one that says something"""
_SLOT: Final = Struct("<II")
_CHECK: Final = Struct("<QI")


def watermark_path(path: Path) -> Path:
    """The witness that belongs to a database file."""
    return path.with_name(path.name + "-told")


class Watermark:
    """The witness of one database. Where its file cannot be used there is none, and nothing else changes.

    Thread-safe: a map is only ever replaced by a longer one, and one to read never stands where a writer looks.
    """

    def __init__(self, path: Path) -> None:
        self._path = watermark_path(path)
        self._lock = threading.Lock()
        self._written: mmap.mmap | None = None
        self._read: mmap.mmap | None = None

    def write(self, seqs: Iterable[tuple[int, int]]) -> None:
        """Session numbers, and the seqs their writers are about to be told."""
        for sid, seq in seqs:
            slots = self._to_write(sid)
            if slots is not None:
                _SLOT.pack_into(slots, sid * SLOT_BYTES, seq, crc32(_CHECK.pack(sid, seq)))

    def clear(self, sids: Iterable[int]) -> None:
        """Nothing is known of these sessions any more."""
        for sid in sids:
            slots = self._to_write(sid)
            if slots is not None:
                slots[sid * SLOT_BYTES : (sid + 1) * SLOT_BYTES] = bytes(SLOT_BYTES)

    def seq(self, sid: int) -> int:
        """The newest seq that was told; 0 where nothing is known."""
        slots = self._to_read(sid)
        return _word(slots, sid) or 0 if slots is not None else 0

    def sessions(self) -> int:
        """The greatest session number anything is known of."""
        slots = self._to_read(0)
        if slots is None:
            return 0
        last = (len(bytes(slots).rstrip(b"\0")) - 1) // SLOT_BYTES
        for sid in range(last, max(last - _LOOK_BACK, 0), -1):
            if any(_SLOT.unpack_from(slots, sid * SLOT_BYTES)) and _word(slots, sid) is not None:
                return sid
        return 0

    def _to_write(self, sid: int) -> mmap.mmap | None:
        """Slots up to this one, or None where there are none and none can be made."""
        if _reaches(self._written, sid):
            return self._written
        with self._lock:
            if not _reaches(self._written, sid):
                self._written = self._mapped(sid, writing=True) or self._written
            return self._written if _reaches(self._written, sid) else None

    def _to_read(self, sid: int) -> mmap.mmap | None:
        """The same to look at, where they are there: looking at a store makes no file."""
        written, read = self._written, self._read
        if _reaches(written, sid):
            return written
        if _reaches(read, sid):
            return read
        with self._lock:
            if not _reaches(self._read, sid):
                self._read = self._mapped(sid, writing=False) or self._read
            return self._read if _reaches(self._read, sid) else None

    def _mapped(self, sid: int, *, writing: bool) -> mmap.mmap | None:
        """The whole file. None where it is not there, read-only, or the disk is full: the witness is silent."""
        flags = os.O_RDWR | os.O_CREAT if writing else os.O_RDONLY
        try:
            descriptor = os.open(self._path, flags | os.O_CLOEXEC, FILE_MODE)
            try:
                if writing:
                    _allocate(descriptor, (sid * SLOT_BYTES // _GROWTH_BYTES + 1) * _GROWTH_BYTES)
                access = mmap.ACCESS_WRITE if writing else mmap.ACCESS_READ
                return mmap.mmap(descriptor, 0, access=access)
            finally:
                os.close(descriptor)
        except (OSError, ValueError):
            return None

    def close(self) -> None:
        """Give the file back; the next use opens it again."""
        with self._lock:
            self._written = self._read = None


def _reaches(slots: mmap.mmap | None, sid: int) -> bool:
    return slots is not None and len(slots) > sid * SLOT_BYTES


def _word(slots: mmap.mmap, sid: int) -> int | None:
    """What a slot says; None where it cannot be read."""
    seq, check = _SLOT.unpack_from(slots, sid * SLOT_BYTES)
    return int(seq) if check == crc32(_CHECK.pack(sid, seq)) else None


def _allocate(descriptor: int, size: int) -> None:
    """Blocks for this many bytes: a write into the map that found the disk full would kill the process."""
    there = os.fstat(descriptor).st_size
    if there >= size:
        return
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, size)
    else:  # macOS: a word that another process writes meanwhile may be lost, and then says nothing
        os.pwrite(descriptor, bytes(size - there), there)
