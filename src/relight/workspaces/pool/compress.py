"""Encoding of one object: plain, zstd, a patch of another object, or zstd with another object as dictionary.

A delta (patch or dictionary) is always taken from an object that is stored whole, so reading costs at most two steps.
Decompressed sizes are bounded by what the record declares, and that by OBJECT_MAX_BYTES, so a zip bomb stays small.
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
"""smaller objects are not compressed"""
BASE_MAX_BYTES: Final = 1024 * 1024
"""larger objects are not used as a base"""
DELTA_LEAST_BYTES: Final = 2048
"""smaller objects are not stored as a delta"""
SHARE: Final = 4
"""a delta is used if it is at most a fourth of the object"""
PATCH_MAX_BYTES: Final = 1024
"""a longer changed piece is compressed instead"""
_ENDS: Final = struct.Struct("<II")


class Base(NamedTuple):
    """A whole object that others may be deltas of."""

    ref: bytes
    data: bytes


def pack(ref: bytes, data: bytes, base: Base | None = None) -> Record:
    """Encode an object in the smallest form that is worth its time."""
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
    """Decode an object; `Corrupt` if it is not exactly as long as declared."""
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


# -- patches --------------------------------------------------------------------------------------------------


def _pack_patch(data: bytes, base: bytes) -> bytes | None:
    """Length of the common prefix and suffix, and the bytes between; None if those are too long.

    Most edits change one place in a file, so comparing both ends finds a small piece without compressing anything.
    """
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


def _equal_behind(one: bytes, other: bytes, max_length: int) -> int:
    low, high = 0, max_length + 1
    while high - low > 1:
        middle = (low + high) // 2
        if one[len(one) - middle : len(one) - low] == other[len(other) - middle : len(other) - low]:
            low = middle
        else:
            high = middle
    return low


# -- zstd with a dictionary -----------------------------------------------------------------------------------


def _pack_difference(data: bytes, base: bytes) -> bytes | None:
    """The compressed bytes; None if they are not much smaller than the object."""
    if len(base) < SMALL_BYTES:
        return None
    sized = _parameters(len(data).bit_length(), len(base).bit_length())
    packed = ZstdCompressor(compression_params=sized, dict_data=_prefix(base)).compress(data)
    return packed if len(packed) * SHARE <= len(data) else None


@lru_cache(maxsize=512)
def _parameters(data_bits: int, base_bits: int) -> ZstdCompressionParameters:
    """Parameters for sizes below these powers of two, with tables no larger than necessary."""
    return ZstdCompressionParameters.from_level(
        LEVEL, source_size=1 << data_bits, dict_size=1 << base_bits, write_content_size=True, write_dict_id=False
    )


def _prefix(base: bytes) -> ZstdCompressionDict:
    return ZstdCompressionDict(base, dict_type=DICT_TYPE_RAWCONTENT)
