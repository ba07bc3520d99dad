"""The index of one segment: one row per object, sorted by hash, searched in its encoded form.

    "RLIDX4\\n\\0" · u64 covered size · 1025 u32: where the rows of each first ten bits begin
    rows (hash, offset, payload size, raw size, form, base) · sha256 of all before

Opening a pool of a hundred thousand objects costs one read and one checksum. The index is an optimisation: if it fails
its checksum it is ignored, and the segment is scanned.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Final

from relight.workspaces.pool.objects import HASH_BYTES, digest
from relight.workspaces.pool.segment import Location

_MAGIC: Final = b"RLIDX4\n\0"
_FAN_BITS: Final = 10
_FAN: Final = struct.Struct(f"<{(1 << _FAN_BITS) + 1}I")
_HEAD: Final = struct.Struct("<8sQ")
_ROW: Final = struct.Struct("<32sQIIB32s")
_ROWS_AT: Final = _HEAD.size + _FAN.size


class Index:
    """The encoded rows of a segment."""

    def __init__(self, segment: str, covered: int, data: bytes) -> None:
        self.segment, self.covered = segment, covered
        """`covered`: how many bytes of the segment it describes"""
        self._data = data
        self._fan = _FAN.unpack_from(data, _HEAD.size)

    def __iter__(self) -> Iterator[tuple[bytes, Location]]:
        rows = memoryview(self._data)[_ROWS_AT:]
        return ((row[0], Location(self.segment, *row[1:])) for row in _ROW.iter_unpack(rows))

    def find(self, ref: bytes) -> Location | None:
        """The location of an object in this segment."""
        bucket = _bucket(ref)
        start = _ROWS_AT + self._fan[bucket] * _ROW.size
        at, end = start - 1, _ROWS_AT + self._fan[bucket + 1] * _ROW.size
        while (at := self._data.find(ref, at + 1, end)) >= 0:
            if (at - start) % _ROW.size == 0:  # else it was found as the base of another row
                return Location(self.segment, *_ROW.unpack_from(self._data, at)[1:])
        return None


def encode(covered: int, locations: Iterable[tuple[bytes, Location]]) -> bytes:
    rows = sorted(_ROW.pack(ref, p.offset, p.payload_bytes, p.raw_bytes, p.form, p.base) for ref, p in locations)
    counts = Counter(map(_bucket, rows))
    begins = accumulate((counts[bucket] for bucket in range(1 << _FAN_BITS)), initial=0)
    data = _HEAD.pack(_MAGIC, covered) + _FAN.pack(*begins) + b"".join(rows)
    return data + digest(data)


def decode(data: bytes, segment: str) -> Index | None:
    """The index, or None if it is damaged: then the segment is scanned."""
    body, check = data[:-HASH_BYTES], data[-HASH_BYTES:]
    if len(body) < _ROWS_AT or (len(body) - _ROWS_AT) % _ROW.size or digest(body) != check:
        return None
    magic, covered = _HEAD.unpack_from(body)
    return Index(segment, covered, body) if magic == _MAGIC else None


def _bucket(ref: bytes) -> int:
    return (ref[0] << 8 | ref[1]) >> (16 - _FAN_BITS)
