"""A part of a segment in a blob store: records, followed by an index of them.

    "RLPRT1\\n\\0" · records as in a segment · rows (hash, offset, payload size, raw size, form, base)
    u32 bytes before the rows · u32 rows · sha256 of rows and both numbers · "RLPRTEND"

A part is written once and never changed. Its name is its start in the segment, in bytes of parts, so that a list of
names and sizes shows whether one is missing. The index is read from the end, without the records. If it fails its
checksum the records are scanned, each of which has its own.
"""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Callable, Iterable
from typing import Final

from relight.journal.files.store_marks import PART_MAGIC
from relight.workspaces.pool import segment
from relight.workspaces.pool.objects import digest
from relight.workspaces.pool.segment import Location, Record

_MAGIC: Final = PART_MAGIC
_END: Final = b"RLPRTEND"
_ROW: Final = struct.Struct("<32sIIIB32s")
_NUMBERS: Final = struct.Struct("<II")
_TAIL_BYTES: Final = _NUMBERS.size + 32 + len(_END)
FIXED_BYTES: Final = len(_MAGIC) + _TAIL_BYTES
"""the size of a part beyond its records and their rows"""
ROW_BYTES: Final = _ROW.size
PART_BYTES: Final = 4 * 1024 * 1024
"""a part is sealed once it is larger than this"""
WHOLE_BYTES: Final = 128 * 1024
"""a smaller part is fetched whole instead of only its index"""
_TAIL_READ_BYTES: Final = 32 * 1024

Found = list[tuple[bytes, Location]]


class PartBuilder:
    """A part that is being built in memory."""

    def __init__(self, segment_name: str, start: int) -> None:
        self.segment, self.start = segment_name, start
        self._records: list[bytes] = []
        self._rows: list[bytes] = []
        self._body_bytes = len(_MAGIC)

    @property
    def size_bytes(self) -> int:
        """Its size if it were sealed now; 0 if it is empty."""
        return self._body_bytes + len(self._rows) * ROW_BYTES + _TAIL_BYTES if self._rows else 0

    def add(self, record: Record) -> tuple[Location, int]:
        """Add a record; returns its future location and its size."""
        data = record.encode()
        at = self._body_bytes + len(data) - len(record.payload)
        self._records.append(data)
        self._rows.append(_ROW.pack(record.ref, at, len(record.payload), record.raw_bytes, record.form, record.base))
        self._body_bytes += len(data)
        location = Location(
            self.segment, self.start + at, len(record.payload), record.raw_bytes, record.form, record.base
        )
        return location, len(data) + ROW_BYTES

    def encode(self) -> bytes:
        """The encoded part, ready for upload."""
        index_bytes = b"".join(self._rows) + _NUMBERS.pack(self._body_bytes, len(self._rows))
        return b"".join((_MAGIC, *self._records, index_bytes, digest(index_bytes), _END))


def estimate_bytes(records: Iterable[Record]) -> int:
    """The size these records would have in new parts."""
    total, part = 0, 0
    for record in records:
        if not part:
            total += FIXED_BYTES
            part = FIXED_BYTES
        size = segment.header_bytes(record.form) + len(record.payload) + ROW_BYTES
        total, part = total + size, part + size
        part = 0 if part > PART_BYTES else part
    return total


def read_index(read: Callable[[int, int], bytes], size: int, segment_name: str, start: int) -> Found | None:
    """The objects of a part, by its index: `read` takes an offset and a length. None if the index is invalid."""
    if size < FIXED_BYTES:
        return None
    at = max(size - _TAIL_READ_BYTES, 0)
    tail = read(at, size - at)
    body, count = _numbers(tail)
    if body + count * ROW_BYTES + _TAIL_BYTES != size:
        return None
    if body < at:
        tail = read(body, at - body) + tail
        at = body
    index_bytes = tail[body - at : size - at - 32 - len(_END)]
    if digest(index_bytes) != tail[-32 - len(_END) : -len(_END)]:
        return None
    rows = _ROW.iter_unpack(index_bytes[: count * ROW_BYTES])
    return [(ref, Location(segment_name, start + offset, *rest)) for ref, offset, *rest in rows]


def _numbers(tail: bytes) -> tuple[int, int]:
    if len(tail) < _TAIL_BYTES or tail[-len(_END) :] != _END:
        return 0, 0
    body, count = _NUMBERS.unpack_from(tail, len(tail) - _TAIL_BYTES)
    return int(body), int(count)


def scan(data: bytes, segment_name: str, start: int) -> Found:
    """The objects of a part by scanning its records, up to the first that is not whole."""
    with tempfile.TemporaryFile(prefix="relight-part-") as file:
        file.write(data)
        file.flush()
        found = segment.scan(file.fileno(), segment_name, 0, len(data))
        return [(ref, location._replace(offset=start + location.offset)) for ref, location in found]
