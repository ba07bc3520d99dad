"""A segment: an append-only file of compressed objects.

    file     "RLSEG1\\n\\0", then records: header, [base hash], payload
    header   u32 check over the rest and the payload · u8 form · 3 zero bytes · u32 raw size · u32 payload size · hash

Guarantee: a record that `scan` returns was written whole: its checksum covers header and payload, so a torn tail is
never read as a record. Objects are verified by hash when read. Only the process that holds its lock writes a segment.
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
"""uncompressed; zstd; zstd with another object as dictionary; another object with a piece replaced"""

_HEADER: Final = struct.Struct("<IB3xII32s")
_CHECK: Final = struct.Struct("<I")
_REST: Final = struct.Struct("<B3xII32s")
_READ_BYTES: Final = 8 * 1024 * 1024
NO_BASE: Final = bytes(HASH_BYTES)


class Location(NamedTuple):
    """Where an object is stored."""

    segment: str
    offset: int
    """offset of the payload"""
    payload_bytes: int
    raw_bytes: int
    form: int
    base: bytes
    """the object it is a delta of, for DELTA and PATCH"""

    @property
    def has_base(self) -> bool:
        return self.form >= DELTA


class Record(NamedTuple):
    """An encoded object, to be written."""

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
    """The size of a record without its payload."""
    return _HEADER.size + (HASH_BYTES if form >= DELTA else 0)


def scan(fd: int, segment: str, start: int, end: int) -> Iterator[tuple[bytes, Location]]:
    """The records between two offsets, up to the first that is not whole."""
    at = max(start, len(MAGIC))
    buffer, origin = b"", at
    while at + _HEADER.size <= end:
        if at + _HEADER.size + HASH_BYTES > origin + len(buffer):
            buffer, origin = os.pread(fd, _READ_BYTES, at), at
        head = buffer[at - origin : at - origin + _HEADER.size]
        if len(head) < _HEADER.size:
            return
        check, form, raw, size, ref = _HEADER.unpack(head)
        total = header_bytes(form) + size
        if form > PATCH or raw > OBJECT_MAX_BYTES or size > OBJECT_MAX_BYTES + 1024 or at + total > end:
            return
        if at + total > origin + len(buffer):
            buffer, origin = os.pread(fd, max(_READ_BYTES, total), at), at
        body = buffer[at - origin + 4 : at - origin + total]
        if len(body) != total - 4 or zlib.crc32(body) != check:
            return
        base = body[_HEADER.size - 4 : _HEADER.size - 4 + HASH_BYTES] if form >= DELTA else NO_BASE
        yield ref, Location(segment, at + total - size, size, raw, form, base)
        at += total


def location_end(location: Location) -> int:
    return location.offset + location.payload_bytes
