"""How one object is made small: zstd, a piece put into the object it was made from, or zstd against that object.

A difference is always taken from an object that is not one itself, so reading costs at most two steps. Most edits
change one place: what is equal at both ends is found by comparing, and only the piece between is kept. Decompression
is bounded by the size the record states, and that by OBJECT_MAX_BYTES: a bomb stays small.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Final, NamedTuple

from zstandard import (
    DICT_TYPE_RAWCONTENT,
    ZstdCompressionDict,
    ZstdCompressionParameters,
    ZstdCompressor,
    ZstdDecompressor,
    ZstdError,
    frame_content_size,
)

from relight.errors import Corrupt
from relight.journal import compression
from relight.workspaces.pool.objects import OBJECT_MAX_BYTES
from relight.workspaces.pool.segment import DELTA, NO_BASE, PATCH, PLAIN, ZSTD, Record

LEVEL: Final = 1
SMALL_BYTES: Final = 64
"""below this nothing is gained"""
BASE_MAX_BYTES: Final = 1024 * 1024
"""larger objects are not worth reading their base"""
DELTA_LEAST_BYTES: Final = 2048
"""smaller objects cost more time than space"""
SHARE: Final = 4
"""a difference is kept when it is at most a fourth of the object"""
PATCH_MAX_BYTES: Final = 1024
"""a longer piece is worth compressing"""
_ENDS: Final = struct.Struct("<II")


class Base(NamedTuple):
    """A whole object that others may be differences from."""

    ref: bytes
    data: bytes


def pack(ref: bytes, data: bytes, base: Base | None = None) -> Record:
    """The smallest form that is worth its time."""
    if base is not None and base.ref != ref and max(len(data), len(base.data)) <= BASE_MAX_BYTES:
        piece = _pack_patch(data, base.data)
        if piece is not None:
            return Record(ref, PATCH, len(data), piece, base.ref)
        difference = _pack_difference(data, base.data) if len(data) >= DELTA_LEAST_BYTES else None
        if difference is not None:
            return Record(ref, DELTA, len(data), difference, base.ref)
    packed = compression.compress(data) if len(data) >= SMALL_BYTES else data
    return Record(ref, ZSTD, len(data), packed) if len(packed) < len(data) else Record(ref, PLAIN, len(data), data)


def unpack(form: int, payload: bytes, raw_bytes: int, base: bytes = NO_BASE) -> bytes:
    """The object; `Corrupt` where it is not exactly as long as was stated."""
    if raw_bytes > OBJECT_MAX_BYTES:
        raise Corrupt(f"an object of {raw_bytes} bytes; no object is that large")
    try:
        data = _unpack(form, payload, raw_bytes, base)
    except (compression.Damaged, ZstdError, struct.error) as error:
        raise Corrupt(f"an object that cannot be unpacked: {error}") from error
    if len(data) != raw_bytes:
        raise Corrupt("an object that is not as long as was stated")
    return data


def _unpack(form: int, payload: bytes, raw_bytes: int, base: bytes) -> bytes:
    if form == PLAIN:
        return payload
    if form == PATCH:
        return _unpack_patch(payload, base)
    if form == DELTA:
        if frame_content_size(payload) != raw_bytes:
            raise compression.Damaged("a difference of another size than declared")
        return ZstdDecompressor(dict_data=_prefix(base)).decompress(payload, allow_extra_data=False)
    return compression.decompress(payload, raw_bytes)


# -- one piece ------------------------------------------------------------------------------------------------


def _pack_patch(data: bytes, base: bytes) -> bytes | None:
    """(equal bytes in front, equal bytes behind, what stands between); None where that is long."""
    front = _equal_front(data, base)
    behind = _equal_behind(data, base, min(len(data), len(base)) - front)
    between = len(data) - front - behind
    if between > PATCH_MAX_BYTES or (between + _ENDS.size) * SHARE > len(data):
        return None
    return _ENDS.pack(front, behind) + data[front : len(data) - behind]


def _unpack_patch(payload: bytes, base: bytes) -> bytes:
    front, behind = _ENDS.unpack_from(payload)
    if front + behind > len(base):
        raise compression.Damaged("a piece for a longer object")
    return base[:front] + payload[_ENDS.size :] + base[len(base) - behind :]


def _equal_front(one: bytes, other: bytes) -> int:
    low, high = 0, min(len(one), len(other))
    if one[:high] == other[:high]:
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle
    return low


def _equal_behind(one: bytes, other: bytes, most: int) -> int:
    low, high = 0, most + 1
    while high - low > 1:
        middle = (low + high) // 2
        if one[len(one) - middle : len(one) - low] == other[len(other) - middle : len(other) - low]:
            low = middle
        else:
            high = middle
    return low


# -- zstd against another object ------------------------------------------------------------------------------


def _pack_difference(data: bytes, base: bytes) -> bytes | None:
    """None where it is not much smaller than the object."""
    if len(base) < SMALL_BYTES:
        return None
    sized = _parameters(len(data).bit_length(), len(base).bit_length())
    packed = ZstdCompressor(compression_params=sized, dict_data=_prefix(base)).compress(data)
    return packed if len(packed) * SHARE <= len(data) else None


@lru_cache(maxsize=512)
def _parameters(data_bits: int, base_bits: int) -> ZstdCompressionParameters:
    """For sizes below these powers of two: tables no larger than they need to be."""
    return ZstdCompressionParameters.from_level(
        LEVEL, source_size=1 << data_bits, dict_size=1 << base_bits, write_content_size=True, write_dict_id=False
    )


def _prefix(base: bytes) -> ZstdCompressionDict:
    return ZstdCompressionDict(base, dict_type=DICT_TYPE_RAWCONTENT)
