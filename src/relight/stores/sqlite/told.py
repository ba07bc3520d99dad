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


def told_of(path: Path) -> Path:
    """The witness that belongs to a database file."""
    return path.with_name(path.name + "-told")


class Told:
    """The witness of one database. Where its file cannot be used there is none, and nothing else changes."""

    def __init__(self, path: Path) -> None:
        self._path = told_of(path)
        self._lock = threading.Lock()
        self._slots: mmap.mmap | None = None
        self._writable = False

    def write(self, seqs: Iterable[tuple[int, int]]) -> None:
        """Session numbers, and the seqs their writers are about to be told."""
        for sid, seq in seqs:
            slots = self._mapped(sid, writing=True)
            if slots is not None:
                _SLOT.pack_into(slots, sid * SLOT_BYTES, seq, crc32(_CHECK.pack(sid, seq)))

    def clear(self, sids: Iterable[int]) -> None:
        """Nothing is known of these sessions any more."""
        for sid in sids:
            slots = self._mapped(sid, writing=True)
            if slots is not None:
                slots[sid * SLOT_BYTES : (sid + 1) * SLOT_BYTES] = bytes(SLOT_BYTES)

    def seq(self, sid: int) -> int:
        """The newest seq that was told; 0 where nothing is known."""
        slots = self._mapped(sid, writing=False)
        if slots is None:
            return 0
        seq, check = _SLOT.unpack_from(slots, sid * SLOT_BYTES)
        return seq if check == crc32(_CHECK.pack(sid, seq)) else 0

    def sessions(self) -> int:
        """The greatest session number anything is known of."""
        slots = self._mapped(0, writing=False)
        last = (len(bytes(slots).rstrip(b"\0")) - 1) // SLOT_BYTES if slots is not None else 0
        for sid in range(last, max(last - _LOOK_BACK, 0), -1):
            if slots is not None and any(_SLOT.unpack_from(slots, sid * SLOT_BYTES)) and self._speaks(sid):
                return sid
        return 0

    def _speaks(self, sid: int) -> bool:
        assert self._slots is not None
        seq, check = _SLOT.unpack_from(self._slots, sid * SLOT_BYTES)
        return bool(check == crc32(_CHECK.pack(sid, seq)))

    def _mapped(self, sid: int, *, writing: bool) -> mmap.mmap | None:
        """The slots up to this one, or None where there are none and none can be made."""
        slots = self._slots
        if slots is not None and len(slots) > sid * SLOT_BYTES and (self._writable or not writing):
            return slots
        with self._lock:
            try:
                return self._map(sid, writing=writing)
            except (OSError, ValueError):  # not there, read-only, full: the witness is silent
                return None

    def _map(self, sid: int, *, writing: bool) -> mmap.mmap | None:
        flags = os.O_RDWR | os.O_CREAT if writing else os.O_RDONLY  # looking at a store makes no file
        descriptor = os.open(self._path, flags | os.O_CLOEXEC, FILE_MODE)
        try:
            needed = (sid * SLOT_BYTES // _GROWTH_BYTES + 1) * _GROWTH_BYTES
            if writing and os.fstat(descriptor).st_size < needed:
                os.posix_fallocate(descriptor, 0, needed)
            access = mmap.ACCESS_WRITE if writing else mmap.ACCESS_READ
            self._slots, self._writable = mmap.mmap(descriptor, 0, access=access), writing
        finally:
            os.close(descriptor)
        return self._slots if len(self._slots) > sid * SLOT_BYTES else None

    def close(self) -> None:
        """Give the file back; the next use opens it again."""
        with self._lock:
            self._slots, self._writable = None, False
