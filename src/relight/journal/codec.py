"""The stored form: `Changes` to bytes and back. Data only: no type name, no code, nothing that imports.

A body is one version byte, one packing byte, then MessagePack, compressed where that pays. What MessagePack cannot
hold and JSON can (lone surrogates, integers beyond 64 bits) goes into extension types, out of band, so that no text a
user stores can be mistaken for them. Decompression is bounded by the size the writer declared, and that by our cap.

Reading an older version goes through its upcasters one by one; a newer version is refused by its number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec

from relight.errors import InvalidMessage
from relight.journal.jsonable import check_json
from relight.journal.zstandard import ZstdCompressor, ZstdDecompressor, ZstdError, get_frame_info
from relight.model.policy import LIMITS
from relight.model.session import Head, Identity
from relight.model.step import Changes

VERSION: Final = 1
UPCASTERS: Final[dict[int, Callable[[dict[str, Any]], dict[str, Any]]]] = {}
"""from a version to the next one; each takes and returns the decoded mapping"""

_PLAIN: Final = 0
_ZSTD: Final = 1
_WORTH_BYTES: Final = 200
_BIG_INT: Final = 1
_ODD_TEXT: Final = 2
_ODD_MAP: Final = 3
_EXT_DEPTH: Final = LIMITS.depth

_T = TypeVar("_T")


class Undecodable(Exception):
    """Bytes that no writer of ours produced. Internal: the reader turns it into `Corrupt` with a place."""


_compressor = ZstdCompressor(level=3)
"""one for all threads: it has a lock of its own, and a context costs more to make than a step to compress"""
_encoder = msgspec.msgpack.Encoder()


def encode_changes(changes: Changes) -> bytes:
    """Bytes of a step. The changes must have passed `check_json`."""
    return _pack(_encode(changes), LIMITS.step_bytes)


def decode_changes(body: bytes) -> Changes:
    """The step behind the bytes, or Undecodable."""
    version, data = _unpack(body, LIMITS.step_bytes + 1024)
    if version == VERSION:
        return _decode(data, _changes_decoder)
    return _convert(_upcast(version, _decode(data, _any_decoder)), Changes)


def encode_record(record: Head | Identity) -> bytes:
    """Bytes of a session's head or identity; rows that carry them are sealed (chain.py)."""
    return _pack(_encode(record), LIMITS.step_bytes)


def decode_head(body: bytes) -> Head:
    """The head behind the bytes, or Undecodable."""
    return _decode(_unpack(body, LIMITS.step_bytes)[1], _head_decoder)


def decode_identity(body: bytes) -> Identity:
    """The identity behind the bytes, or Undecodable."""
    return _decode(_unpack(body, LIMITS.step_bytes)[1], _identity_decoder)


def isolated(value: _T, *, cap: int = LIMITS.message_bytes) -> _T:
    """Check that a value is JSON and give back what a reload would give: a copy nobody else can change."""
    check_json(value)
    data = _encode(value)
    if len(data) > cap:
        raise InvalidMessage(f"{len(data):,} bytes encoded; the most is {cap:,}")
    return _decode(data, _any_decoder)  # type: ignore[no-any-return]


def encoded(value: Any) -> bytes:
    """The bytes of a checked value, for comparing."""
    return _encode(value)


# -- packing ---------------------------------------------------------------------------------------------------


def _pack(data: bytes, cap: int) -> bytes:
    if len(data) > cap:
        raise InvalidMessage(f"a step of {len(data):,} bytes; the most is {cap:,}")
    if len(data) < _WORTH_BYTES:
        return bytes((VERSION, _PLAIN)) + data
    packed = _compressor.compress(data, mode=ZstdCompressor.FLUSH_FRAME)
    return bytes((VERSION, _ZSTD)) + packed


def _unpack(body: bytes, cap: int) -> tuple[int, bytes]:
    if len(body) < 2 or body[0] == 0:
        raise Undecodable("too short")
    version, packing = body[0], body[1]
    if version > VERSION:
        raise Undecodable(f"stored form {version} is newer than {VERSION}")
    if packing == _PLAIN:
        return version, body[2:]
    if packing != _ZSTD:
        raise Undecodable(f"unknown packing {packing}")
    try:
        size = get_frame_info(memoryview(body)[2:]).decompressed_size
        if size is None or size > cap:
            raise Undecodable("declares an impossible size")
        unpacker = ZstdDecompressor()
        data = unpacker.decompress(memoryview(body)[2:], max_length=size + 1)
    except ZstdError as error:
        raise Undecodable(str(error)) from None
    if len(data) != size or not unpacker.eof:
        raise Undecodable("compressed data ends early")
    return version, data


def _upcast(version: int, data: Any) -> Any:
    for older in range(version, VERSION):
        try:
            data = UPCASTERS[older](data)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise Undecodable(f"stored form {older} cannot be read: {error}") from None
    return data


def _convert(data: Any, kind: type[_T]) -> _T:
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        raise Undecodable(str(error)) from None


# -- MessagePack with the two things JSON has and it has not -------------------------------------------------------


def _encode(value: Any) -> bytes:
    try:
        return _encoder.encode(value)
    except (OverflowError, UnicodeEncodeError):
        return _encoder.encode(_escape(msgspec.to_builtins(value, builtin_types=(bytes,))))


def _escape(value: Any) -> Any:
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        return msgspec.msgpack.Ext(_BIG_INT, value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True))
    if isinstance(value, str):
        raw = value.encode("utf-8", "surrogatepass")
        return value if _is_utf8(raw) else msgspec.msgpack.Ext(_ODD_TEXT, raw)
    if isinstance(value, dict):
        if all(isinstance(key, str) and _is_utf8(key.encode("utf-8", "surrogatepass")) for key in value):
            return {key: _escape(item) for key, item in value.items()}
        pairs = [[_escape(key), _escape(item)] for key, item in value.items()]
        return msgspec.msgpack.Ext(_ODD_MAP, _encoder.encode(pairs))
    if isinstance(value, list | tuple):
        return [_escape(item) for item in value]
    return value


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _unescape(code: int, data: memoryview) -> Any:
    if code == _BIG_INT:
        return int.from_bytes(data, "big", signed=True)
    if code == _ODD_TEXT:
        return data.tobytes().decode("utf-8", "surrogatepass")
    if code == _ODD_MAP:
        return dict(_any_decoder.decode(data))
    raise ValueError(f"unknown extension {code}")


_any_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(Any, ext_hook=_unescape)
_changes_decoder = msgspec.msgpack.Decoder(Changes, ext_hook=_unescape)
_head_decoder = msgspec.msgpack.Decoder(Head, ext_hook=_unescape)
_identity_decoder = msgspec.msgpack.Decoder(Identity, ext_hook=_unescape)


def _decode(data: bytes, decoder: msgspec.msgpack.Decoder[_T]) -> _T:
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError) as error:
        raise Undecodable(str(error)) from None
