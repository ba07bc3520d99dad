"""Acknowledgement watermark: per session the highest seq that was acknowledged to a caller, in a file beside the store.

SQLite takes a damaged write-ahead log for one that ended earlier, and would silently serve a shorter history. So after
each COMMIT and before its callers get their answers, their seqs are written here; a session whose head is below its
watermark has lost acknowledged steps, and is treated like one whose head cannot be read. Slot 0 counts changes that are
not steps (names, labels, deletions).

The watermark is evidence, never the source of truth: a slot that fails its checksum is ignored. One slot of 8 bytes per
session, by its number; it holds no text of any session.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import threading
from binascii import crc32
from collections.abc import Iterable
from pathlib import Path
from struct import Struct
from typing import Final

from relight.stores.sqlite.connection.files import FILE_MODE

SLOT_BYTES: Final = 8
CHANGES: Final = 0
"""slot 0: how many changes other than steps were acknowledged"""
_GROWTH_BYTES: Final = 64 * 1024
_EMPTY: Final = bytes(4096)
_MAX_SCANNED_SLOTS: Final = 64
"""slots read backwards in search of the last valid one"""
_SLOT: Final = Struct("<II")
_CHECK: Final = Struct("<QI")


def watermark_path(path: Path) -> Path:
    """The watermark file of a database file."""
    return path.with_name(path.name + "-told")


class Watermark:
    """The watermarks of one database. If the file cannot be used there are none, and the store works without.

    Thread-safe: a mapping is only ever replaced by a longer one, and a read-only one is never used for writing.
    """

    def __init__(self, path: Path) -> None:
        self._path = watermark_path(path)
        self._lock = threading.Lock()
        self._written: mmap.mmap | None = None
        self._read: mmap.mmap | None = None

    def write(self, seqs: Iterable[tuple[int, int]]) -> None:
        """Raise watermarks: (session number, seq), just before the callers are answered."""
        # Into a memory map and without msync: a system call per commit would cost more than the rest of this, and after
        # a power cut an older watermark is still true.
        for sid, seq in seqs:
            slots = self._slots_to_write(sid)
            if slots is not None:
                _SLOT.pack_into(slots, sid * SLOT_BYTES, seq, crc32(_CHECK.pack(sid, seq)))

    def clear(self, sids: Iterable[int]) -> None:
        """Zero the slots of deleted sessions."""
        for sid in sids:
            slots = self._slots_to_write(sid)
            if slots is not None:
                slots[sid * SLOT_BYTES : (sid + 1) * SLOT_BYTES] = bytes(SLOT_BYTES)

    def seq(self, sid: int) -> int:
        """The highest acknowledged seq; 0 if unknown."""
        slots = self._slots_to_read(sid)
        return _read_slot(slots, sid) or 0 if slots is not None else 0

    def sessions(self) -> int:
        """The highest session number that has a watermark."""
        slots = self._slots_to_read(0)
        if slots is None:
            return 0
        last = (_used_bytes(slots) - 1) // SLOT_BYTES
        for sid in range(last, max(last - _MAX_SCANNED_SLOTS, 0), -1):
            if any(_SLOT.unpack_from(slots, sid * SLOT_BYTES)) and _read_slot(slots, sid) is not None:
                return sid
        return 0

    def _slots_to_write(self, sid: int) -> mmap.mmap | None:
        """A writable mapping that reaches this slot, or None if there is none and none can be made."""
        if _reaches(self._written, sid):
            return self._written
        with self._lock:
            if not _reaches(self._written, sid):
                self._written = self._map(sid, writing=True) or self._written
            return self._written if _reaches(self._written, sid) else None

    def _slots_to_read(self, sid: int) -> mmap.mmap | None:
        """A mapping that reaches this slot, if the file does: reading a store creates no file."""
        written, read = self._written, self._read
        if _reaches(written, sid):
            return written
        if _reaches(read, sid):
            return read
        with self._lock:
            if not _reaches(self._read, sid):
                self._read = self._map(sid, writing=False) or self._read
            return self._read if _reaches(self._read, sid) else None

    def _map(self, sid: int, *, writing: bool) -> mmap.mmap | None:
        """Map the whole file; None if it is missing, read-only, or the disk is full."""
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
        """Drop the mappings; the next use makes new ones."""
        with self._lock:
            self._written = self._read = None


def _used_bytes(slots: mmap.mmap) -> int:
    """Up to where it is not empty. Asked several times by every opening of a session, and the file grows by many pages
    at once: empty pages are compared whole."""
    end = len(slots)
    while slots[(start := max(end - len(_EMPTY), 0)) : end] == _EMPTY:
        end = start
    return start + len(slots[start:end].rstrip(b"\0"))


def _reaches(slots: mmap.mmap | None, sid: int) -> bool:
    return slots is not None and len(slots) > sid * SLOT_BYTES


def _read_slot(slots: mmap.mmap, sid: int) -> int | None:
    """The seq of a slot; None if it fails its checksum."""
    seq, check = _SLOT.unpack_from(slots, sid * SLOT_BYTES)
    return int(seq) if check == crc32(_CHECK.pack(sid, seq)) else None


def _allocate(descriptor: int, size: int) -> None:
    """Allocate blocks: a store into a sparse mapping on a full disk would kill the process with SIGBUS."""
    if os.fstat(descriptor).st_size >= size:
        return
    if hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(descriptor, 0, size)
            return
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
                raise
    # Zeros, written under a lock: two processes that both found the file short must not both write them, since the
    # first may have filled a slot by the time the second writes. Closing does not unlock: the mapping keeps a copy.
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        allocated = os.fstat(descriptor).st_size
        while allocated < size:
            allocated += os.pwrite(descriptor, bytes(size - allocated), allocated)
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
