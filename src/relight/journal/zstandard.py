"""Zstandard from the standard library where it has it (3.14), else from its backport: one API, two homes."""

from __future__ import annotations

import sys

if sys.version_info >= (3, 14):
    from compression.zstd import ZstdCompressor, ZstdDecompressor, ZstdError, get_frame_info
else:
    from backports.zstd import ZstdCompressor, ZstdDecompressor, ZstdError, get_frame_info

__all__ = ["ZstdCompressor", "ZstdDecompressor", "ZstdError", "get_frame_info"]
