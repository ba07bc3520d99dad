"""Zstandard with reused contexts: creating one costs more than compressing or reading a step.

Idle contexts wait in a list. Taking one out and returning it are atomic list operations, so threads never share one,
and there are never more than concurrent calls. Decompression is bounded by the size the writer declared. The library is
imported on first use: listing sessions does not need it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from struct import pack
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from zstandard import ZstdCompressor, ZstdDecompressor

Frame = bytes | bytearray | memoryview

LEVEL: Final = 1
"""on messages of a few kilobytes, higher levels take longer and save next to nothing"""
SMALL_BYTES: Final = 16 * 1024
"""up to this size a match table that fits the L1 cache compresses as well, in two thirds of the time"""
_compressors: list[ZstdCompressor] = []
_small_compressors: list[ZstdCompressor] = []
_decompressors: list[ZstdDecompressor] = []


class Damaged(Exception):
    """Bytes that do not decompress to what was declared."""


@cache
def _library() -> Any:
    import zstandard

    return zstandard


def compress(data: bytes) -> bytes:
    """One frame that names its size."""
    small = len(data) <= SMALL_BYTES
    idle = _small_compressors if small else _compressors
    try:
        # Pop and append are atomic, so no lock is needed on the path of every commit.
        context = idle.pop()
    except IndexError:
        context = _small_compressor() if small else _library().ZstdCompressor(level=LEVEL)
    packed = context.compress(data)
    idle.append(context)
    return packed


def _small_compressor() -> ZstdCompressor:
    zstandard = _library()
    parameters = zstandard.ZstdCompressionParameters(
        compression_level=LEVEL,
        window_log=14,
        hash_log=11,
        chain_log=6,
        search_log=1,
        min_match=5,
        target_length=0,
        strategy=zstandard.STRATEGY_FAST,
    )
    made: ZstdCompressor = zstandard.ZstdCompressor(compression_params=parameters)
    return made


def decompress_all(frames: list[Frame], sizes: Sequence[int]) -> Iterable[memoryview]:
    """The bytes of many frames, each of exactly its size, in shared memory; or Damaged, and none of them."""
    if not frames:
        return ()
    context = _decompressor()
    try:
        # A context that raises is dropped instead of being returned to the pool: its state is undefined.
        data: Any = context.multi_decompress_to_buffer(frames, decompressed_sizes=pack(f"={len(sizes)}Q", *sizes))
    except (_library().ZstdError, ValueError) as error:
        raise Damaged(str(error)) from None
    _decompressors.append(context)
    return [memoryview(one) for one in data]


def decompress(packed: bytes, size: int) -> bytes:
    """The bytes of one frame of exactly this size, or Damaged. A frame that claims another size is not decompressed."""
    zstandard = _library()
    try:
        # Compared before decompressing: a hostile frame may claim gigabytes.
        if zstandard.frame_content_size(packed) != size:
            raise Damaged("compressed data of another size than declared")
        context = _decompressor()
        data = context.decompress(packed, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise Damaged(str(error)) from None
    _decompressors.append(context)
    if len(data) != size:
        raise Damaged("compressed data of another size than declared")
    return data


def _decompressor() -> ZstdDecompressor:
    try:
        return _decompressors.pop()
    except IndexError:
        made: ZstdDecompressor = _library().ZstdDecompressor()
        return made
