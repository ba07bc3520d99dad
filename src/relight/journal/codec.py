"""The stored form: `Changes` to bytes and back. Data only: no type names, no code, nothing that imports.

A body is one version byte, one packing byte, then MessagePack, compressed if that pays, preceded by its size. What
MessagePack cannot hold and JSON can (lone surrogates, integers beyond 64 bits) goes into extension types, out of band,
so that no text a user stores can be mistaken for them. Decompression is bounded by the size the writer declared, and
that by our cap.

An older version is read through its upcasters one by one; a newer one is refused by its number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, Final, TypeVar

import msgspec

from relight.errors import InvalidMessage
from relight.journal.compression import Damaged, Frame, compress, decompress, decompress_all
from relight.journal.jsonable import check_json
from relight.values.call import OpenEffect
from relight.values.policy import LIMITS
from relight.values.session import Head, Identity
from relight.values.step import Changes

VERSION: Final = 1
UPCASTERS: Final[dict[int, Callable[[dict[str, Any]], dict[str, Any]]]] = {}
"""upgrades from a version to the next; each takes and returns the decoded mapping"""

_PLAIN: Final = 0
_ZSTD: Final = 1
_PLAIN_HEAD: Final = bytes((VERSION, _PLAIN))
_ZSTD_HEAD: Final = bytes((VERSION, _ZSTD))
_WORTH_BYTES: Final = 200
_FREE_BYTES: Final = 2 * 1024 * 1024
_TOGETHER: Final = 64
_BATCH_BYTES: Final = 256 * 1024
"""bound of bodies that are decompressed with one call"""
_MAX_RATIO: Final = 16
_BIG_INT: Final = 1
_ODD_TEXT: Final = 2
_ODD_MAP: Final = 3

_T = TypeVar("_T")


class Undecodable(Exception):
    """Bytes that no writer of ours produced. Internal: the reader turns it into `Corrupt` with the step."""


class _RecordOnly(msgspec.Struct, frozen=True):
    """Decodes only the framework record of a step."""

    record: msgspec.Raw = msgspec.Raw(b"")


_encoder = msgspec.msgpack.Encoder()


def encode_changes(changes: Changes) -> bytes:
    """Bytes of a step. The changes must have passed `check_json`."""
    data = encoded(changes)
    size = len(data)
    if size > LIMITS.step_bytes:
        raise InvalidMessage(f"a step of {size:,} bytes; the maximum is {LIMITS.step_bytes:,}")
    if size >= _WORTH_BYTES:
        packed = compress(data)
        if size <= _max_output_bytes(packed):
            return b"".join((_ZSTD_HEAD, size.to_bytes(4, "big"), packed))
    return _PLAIN_HEAD + data


def decode_changes(body: bytes) -> Changes:
    """The changes behind the bytes, or Undecodable."""
    version, data = _unpack(body, LIMITS.step_bytes + 1024)
    if version == VERSION:
        changes: Changes = _decode(data, _decoder_of(Changes))
        return changes
    return _convert(_upcast(version, _decode(data, _any_decoder)), Changes)


def decode_all(bodies: Sequence[bytes]) -> Iterator[Changes]:
    """Many steps in order. Undecodable is raised at the first one that cannot be read."""
    return _decode_many(bodies, _decoder_of(Changes), decode_changes)


def decode_records(bodies: Sequence[bytes]) -> Iterator[bytes]:
    """The encoded records of many steps, without decoding them; empty for a step without one."""
    for keeping in _decode_many(bodies, _decoder_of(_RecordOnly), _decode_keeping):
        yield bytes(keeping.record)


def decode_value(data: bytes | memoryview) -> Any:
    """The value that `encoded` turned into these bytes, or Undecodable."""
    return _decode(data, _any_decoder)


def decode_typed(data: bytes | memoryview, decoder: msgspec.msgpack.Decoder[_T]) -> _T:
    """The same for a known type, extension types in its fields included."""
    return _decode(data, decoder)


def typed_decoder(kind: Any) -> msgspec.msgpack.Decoder[Any]:
    """A decoder of this type, to be created once."""
    return msgspec.msgpack.Decoder(kind, ext_hook=_unescape)


def _decode_keeping(body: bytes) -> _RecordOnly:
    version, data = _unpack(body, LIMITS.step_bytes + 1024)
    if version == VERSION:
        record: _RecordOnly = _decode(data, _decoder_of(_RecordOnly))
        return record
    return _RecordOnly(record=msgspec.Raw(encoded(decode_changes(body).record)))


def _decode_many(
    bodies: Sequence[bytes], decoder: msgspec.msgpack.Decoder[_T], one: Callable[[bytes], _T]
) -> Iterator[_T]:
    for start in range(0, len(bodies), _TOGETHER):
        group = bodies[start : start + _TOGETHER]
        sizes = [_declared(body) for body in group]
        frames: list[Frame] = [memoryview(body)[6:] for body, size in zip(group, sizes, strict=True) if size]
        try:
            unpacked = iter(decompress_all(frames, [size for size in sizes if size]))
        # One damaged frame fails the whole batch. Read one by one, so that the error is raised at the step that has it.
        except Damaged:
            yield from map(one, group)
            continue
        for body, size in zip(group, sizes, strict=True):
            yield _decode(next(unpacked), decoder) if size else one(body)


def _declared(body: bytes) -> int:
    """The size of a body that can be decompressed in a batch; 0 if it must be read alone."""
    if body[:2] != _ZSTD_HEAD:
        return 0
    size = int.from_bytes(body[2:6], "big")
    return size if size <= _BATCH_BYTES else 0


def encode_record(record: Head | Identity) -> bytes:
    """Bytes of a head or identity, uncompressed: a head is small and rewritten with every step."""
    return _PLAIN_HEAD + encoded(record)


def decode_head(body: bytes) -> Head:
    """The head behind the bytes, or Undecodable."""
    return _decode(_unpack(body, LIMITS.step_bytes)[1], _head_decoder)


def decode_identity(body: bytes) -> Identity:
    """The identity behind the bytes, or Undecodable."""
    return _decode(_unpack(body, LIMITS.step_bytes)[1], _identity_decoder)


def isolated(value: _T, what: str = "$") -> _T:
    """Check that a value is JSON and return what a reload would return: a copy that no caller shares. `what` it is, for
    the error."""
    check_json(value, root=what)
    data = encoded(value)
    if len(data) > LIMITS.message_bytes:
        raise InvalidMessage(f"{len(data):,} bytes encoded; the maximum is {LIMITS.message_bytes:,}")
    copy: _T = _decode(data, _any_decoder)
    return copy


def sendable_copy(value: _T) -> _T:
    """A copy of a value that was checked before, for a request. A lone surrogate, as in the name of a file that is not
    UTF-8, is U+FFFD in it: no client can send one, so every further request would fail."""
    try:
        data = _encoder.encode(value)
    except (OverflowError, UnicodeEncodeError):
        readable: _T = _readable(_decode(encoded(value), _any_decoder))
        return readable
    copy: _T = _decode(data, _any_decoder)
    return copy


def _readable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_readable(key): _readable(item) for key, item in value.items()}
    return [_readable(item) for item in value] if isinstance(value, list) else value


def encoded(value: Any) -> bytes:
    """The bytes of a checked value."""
    try:
        return _encoder.encode(value)
    # Optimistic: nearly every value is plain MessagePack. Only the rare one that is not pays for a second, escaping
    # pass.
    except (OverflowError, UnicodeEncodeError):
        # A value that was encoded before, as a channel of a framework, takes part as what it holds.
        return _encoder.encode(_escape(msgspec.to_builtins(value, builtin_types=(bytes,), enc_hook=_held)))


def _held(value: Any) -> Any:
    """What is in bytes that were encoded before."""
    if not isinstance(value, msgspec.Raw):
        raise TypeError(f"a {type(value).__name__} is no JSON")
    return _any_decoder.decode(value)


def decode_open(data: bytes) -> tuple[OpenEffect, ...]:
    """Open effects behind the bytes that `encoded` made of them, or Undecodable."""
    return _decode(data, _decoder_of(tuple[OpenEffect, ...]))


# -- packing ------------------------------------------------------------------------------------------------------


def _max_output_bytes(packed: bytes) -> int:
    """How much compressed data may expand to. The writer stores anything that shrinks more uncompressed, so a reader
    can refuse a few bytes that claim to be very many: each could become an object."""
    return max(_FREE_BYTES, _MAX_RATIO * len(packed))


def _unpack(body: bytes, cap: int) -> tuple[int, bytes]:
    if len(body) < 2 or body[0] == 0:
        raise Undecodable("too short")
    version, packing = body[0], body[1]
    if version > VERSION:
        raise Undecodable(f"stored form {version} is newer than {VERSION}")
    if packing == _PLAIN:
        return version, body[2:]
    size = int.from_bytes(body[2:6], "big")
    if packing != _ZSTD or len(body) < 6 or size > min(cap, _max_output_bytes(body)):
        raise Undecodable("unknown packing, or an impossible size")
    try:
        return version, decompress(body[6:], size)
    except Damaged as error:
        raise Undecodable(str(error)) from None


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
_head_decoder = msgspec.msgpack.Decoder(Head, ext_hook=_unescape)
_identity_decoder = msgspec.msgpack.Decoder(Identity, ext_hook=_unescape)


@cache
def _decoder_of(kind: Any) -> msgspec.msgpack.Decoder[Any]:
    """Made on first use: what a type holds is looked up for it, and a list of sessions needs no step."""
    return typed_decoder(kind)


def _decode(data: bytes | memoryview, decoder: msgspec.msgpack.Decoder[_T]) -> _T:
    try:
        return decoder.decode(data)
    # The typed decoder does not accept an extension in place of text or a number. That is rare, so
    # it is tried second.
    except msgspec.ValidationError:
        return _decode_odd(data, decoder)
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError) as error:
        raise Undecodable(str(error)) from None


def _decode_odd(data: bytes | memoryview, decoder: msgspec.msgpack.Decoder[_T]) -> _T:
    """A typed field (a reason, an id, a count) may hold an extension too, which only the untyped decoder reads."""
    try:
        return msgspec.convert(_any_decoder.decode(data), decoder.type)
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError) as error:
        raise Undecodable(str(error)) from None
