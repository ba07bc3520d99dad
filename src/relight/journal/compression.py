"""Zstandard, with contexts that are used again: making one costs more than a step takes to compress or to read.

Idle contexts wait in a list. Taking one out and putting it back are single operations, so threads never share one, and
there are never more of them than calls were under way at once. Decompression is bounded by the size the writer
declared.
"""

from __future__ import annotations

from typing import Final

from zstandard import ZstdCompressor, ZstdDecompressor, ZstdError, frame_content_size

LEVEL: Final = 1
"""on messages of a few kilobytes higher levels take longer and save next to nothing"""
_compressors: list[ZstdCompressor] = []
_decompressors: list[ZstdDecompressor] = []


class Damaged(Exception):
    """Bytes that do not decompress to what was declared."""


def compress(data: bytes) -> bytes:
    """One frame, which names its size."""
    try:
        context = _compressors.pop()
    except IndexError:
        context = ZstdCompressor(level=LEVEL)
    packed = context.compress(data)
    _compressors.append(context)
    return packed


def decompress(packed: bytes, size: int) -> bytes:
    """The bytes of one frame of exactly this size, or Damaged. A frame that claims another size is not touched."""
    try:
        if frame_content_size(packed) != size:
            raise Damaged("compressed data of another size than declared")
        try:
            context = _decompressors.pop()
        except IndexError:
            context = ZstdDecompressor()
        data = context.decompress(packed, allow_extra_data=False)
    except ZstdError as error:
        raise Damaged(str(error)) from None
    _decompressors.append(context)
    if len(data) != size:
        raise Damaged("compressed data of another size than declared")
    return data
