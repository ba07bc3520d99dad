"""One segment: an append-only file of compressed objects.

    file     "RLSEG1\\n\\0", then records: header, [base hash], payload
    header   u32 check over the rest and the payload · u8 form · 3 zero bytes · u32 raw size · u32 payload size · hash

Promise: a record that `scan` returns was written whole: its check covers header and payload, so a torn tail is seen as
one and never believed. Objects are verified by hash when read. A segment is written by the one process that holds its
lock, and by nobody after it is full.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from typing import Final, NamedTuple

from relight.journal.files.store_marks import SEGMENT_MAGIC
from relight.workspaces.pool.objects import HASH_BYTES, OBJECT_MAX_BYTES

MAGIC: Final = SEGMENT_MAGIC
PLAIN, ZSTD, DELTA, PATCH = 0, 1, 2, 3
"""as it is; compressed; compressed against another object; another object with a piece replaced"""

_HEADER: Final = struct.Struct("<IB3xII32s")
_CHECK: Final = struct.Struct("<I")
_REST: Final = struct.Struct("<B3xII32s")
_READ_BYTES: Final = 8 * 1024 * 1024
NO_BASE: Final = bytes(HASH_BYTES)


class Location(NamedTuple):
    """Where an object lies."""

    segment: str
    offset: int
    """of the payload"""
    payload_bytes: int
    raw_bytes: int
    form: int
    base: bytes
    """the object it is a difference from, for DELTA and PATCH"""

    @property
    def has_base(self) -> bool:
        return self.form >= DELTA


class Record(NamedTuple):
    """An object as it is written."""

    ref: bytes
    form: int
    raw_bytes: int
    payload: bytes
    base: bytes = NO_BASE

    def encode(self) -> bytes:
        base = self.base if self.form >= DELTA else b""
        rest = _REST.pack(self.form, self.raw_bytes, len(self.payload), self.ref) + base
        return _CHECK.pack(zlib.crc32(self.payload, zlib.crc32(rest))) + rest + self.payload


def header_bytes(form: int) -> int:
    """What stands before the payload."""
    return _HEADER.size + (HASH_BYTES if form >= DELTA else 0)


def scan(fd: int, segment: str, start: int, end: int) -> Iterator[tuple[bytes, Location]]:
    """The whole records between two offsets, up to the first that is not whole."""
    at = max(start, len(MAGIC))
    buffer, origin = b"", at
    while at + _HEADER.size <= end:
        if at + _HEADER.size + HASH_BYTES > origin + len(buffer):
            buffer, origin = os.pread(fd, _READ_BYTES, at), at
        head = buffer[at - origin : at - origin + _HEADER.size]
        if len(head) < _HEADER.size:
            return
        check, form, raw, size, ref = _HEADER.unpack(head)
        whole = header_bytes(form) + size
        if form > PATCH or raw > OBJECT_MAX_BYTES or size > OBJECT_MAX_BYTES + 1024 or at + whole > end:
            return
        if at + whole > origin + len(buffer):
            buffer, origin = os.pread(fd, max(_READ_BYTES, whole), at), at
        body = buffer[at - origin + 4 : at - origin + whole]
        if len(body) != whole - 4 or zlib.crc32(body) != check:
            return
        base = body[_HEADER.size - 4 : _HEADER.size - 4 + HASH_BYTES] if form >= DELTA else NO_BASE
        yield ref, Location(segment, at + whole - size, size, raw, form, base)
        at += whole


def place_end(place: Location) -> int:
    return place.offset + place.payload_bytes
