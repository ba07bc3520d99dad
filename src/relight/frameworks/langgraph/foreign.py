"""Reads the values of LangGraph's own savers as data. No stored type is constructed or imported.

Their serializer writes types as MessagePack extensions that name a class or function to be called with stored
arguments. Here such a name is only looked up in a closed list: messages and standard types become the marks of
values.py; a user's model, dataclass or enum becomes data under its name, which a program that registers the type can
load; functions, pickles and anything else are refused, by name.
"""

from __future__ import annotations

import json
import math
from base64 import b64encode
from collections.abc import Callable
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec

from relight.frameworks.langgraph.redaction import MARK
from relight.frameworks.langgraph.values import MESSAGES

_SINGLE, _POSITIONAL, _KEYWORDS, _METHOD, _PYDANTIC_1, _PYDANTIC_2, _NUMPY, _SNAPSHOT = range(8)
_DEPTH: Final = 200


class Refusal(Exception):
    """A stored value that is not data; the message says what it is."""


class _Named(NamedTuple):
    """A MessagePack extension, undecoded."""

    code: int
    data: bytes


class Foreign:
    """Translates values, and counts the user types in them."""

    def __init__(self) -> None:
        self.types: dict[str, int] = {}
        self._decoder = msgspec.msgpack.Decoder(ext_hook=lambda code, data: _Named(code, bytes(data)))

    def value(self, kind: str | None, data: bytes | str | None) -> Any:
        """The data form of a stored value. Refusal."""
        if kind is None or kind == "null":
            return None
        if kind == "json":
            return self._json(data or "null")
        if isinstance(data, str):
            raise Refusal(f"text stored as {kind!r}")
        if kind in ("bytes", "bytearray"):
            return {MARK: kind, "v": b64encode(data or b"").decode()}
        if kind == "msgpack":
            return self._convert(self._unpacked(data or b""), 0)
        raise Refusal(f"a value stored as {kind!r}")

    def _json(self, data: bytes | str) -> Any:
        try:
            return self._convert_json(json.loads(data if isinstance(data, str) else data.decode()), 0)
        except (ValueError, RecursionError) as error:
            raise Refusal(f"JSON that cannot be read: {error}") from None

    def _unpacked(self, data: bytes) -> Any:
        try:
            return self._decoder.decode(data)
        except (msgspec.MsgspecError, ValueError, TypeError, RecursionError) as error:
            raise Refusal(f"MessagePack that cannot be read: {error}") from None

    def _convert(self, value: Any, depth: int) -> Any:
        if depth > _DEPTH:
            raise Refusal(f"nested deeper than {_DEPTH}")
        if isinstance(value, _Named):
            return self._extension(value, depth)
        if isinstance(value, dict):
            if all(type(key) is str for key in value) and MARK not in value:
                return {key: self._convert(one, depth + 1) for key, one in value.items()}
            pairs = [[self._convert(key, depth + 1), self._convert(one, depth + 1)] for key, one in value.items()]
            return {MARK: "map", "v": pairs}
        if isinstance(value, list | tuple):
            return [self._convert(one, depth + 1) for one in value]
        if isinstance(value, bytes):
            return {MARK: "bytes", "v": b64encode(value).decode()}
        if isinstance(value, float) and not math.isfinite(value):
            return {MARK: "float", "v": repr(value)}
        if value is None or isinstance(value, str | int | float):
            return value
        raise Refusal(f"a {type(value).__name__}")

    # -- extensions -------------------------------------------------------------------------------------------

    def _extension(self, found: _Named, depth: int) -> Any:
        inner = self._unpacked(found.data)
        if found.code == _SNAPSHOT:
            return {MARK: "snapshot", "v": {"value": self._convert(inner, depth + 1)}}
        if found.code == _NUMPY:
            raise Refusal("a numpy.ndarray")
        if not isinstance(inner, list) or len(inner) < 3 or not all(type(one) is str for one in inner[:2]):
            raise Refusal(f"an extension of kind {found.code}")
        module, name, held = inner[0], inner[1], inner[2]
        way = _STANDARD.get((module, name))
        if way is not None:
            try:
                return way(self._convert(held, depth + 1))
            except (TypeError, ValueError, KeyError, IndexError) as error:
                raise Refusal(f"a {module}.{name} that cannot be one: {error}") from None
        if found.code in (_PYDANTIC_1, _PYDANTIC_2):
            return self._model(module, name, self._convert(held, depth + 1))
        if found.code == _KEYWORDS and isinstance(held, dict):
            return self._named("data", module, name, self._convert(held, depth + 1))
        if found.code == _SINGLE:
            return self._named("enum", module, name, {"value": self._convert(held, depth + 1)})
        raise Refusal(f"a call of {module}.{name}")

    def _model(self, module: str, name: str, fields: Any) -> Any:
        if not isinstance(fields, dict) or MARK in fields:
            raise Refusal(f"a {module}.{name} without fields")
        if name in MESSAGES and module.startswith("langchain_core.messages"):
            return {MARK: "message", "t": name, "v": fields}
        if name == "Document" and module.startswith("langchain_core.documents"):
            return {MARK: "message", "t": name, "v": fields}
        return self._named("dump", module, name, fields)

    def _named(self, mark: str, module: str, name: str, fields: Any) -> Any:
        """A value of a user type, by name. A lower-case name is a function and refused."""
        if not name[:1].isupper() or not isinstance(fields, dict) or MARK in fields:
            raise Refusal(f"a call of {module}.{name}")
        full = f"{module}.{name}"
        self.types[full] = self.types.get(full, 0) + 1
        return {MARK: mark, "t": full, "v": fields}

    # -- the older form in JSON -------------------------------------------------------------------------------

    def _convert_json(self, value: Any, depth: int) -> Any:
        if isinstance(value, dict) and value.get("lc") in (1, 2) and value.get("type") == "constructor":
            return self._constructor(value, depth)
        if isinstance(value, dict):
            inner = {key: self._convert_json(one, depth + 1) for key, one in value.items()}
            return inner if MARK not in inner else {MARK: "map", "v": [[key, one] for key, one in inner.items()]}
        if isinstance(value, list):
            return [self._convert_json(one, depth + 1) for one in value]
        return self._convert(value, depth)

    def _constructor(self, value: dict[str, Any], depth: int) -> Any:
        named = [str(one) for one in value.get("id") or ["?"]]
        fields = value.get("kwargs")
        if named[-1] in MESSAGES and named[0] in ("langchain", "langchain_core") and isinstance(fields, dict):
            return {MARK: "message", "t": named[-1], "v": self._convert_json(fields, depth + 1)}
        raise Refusal(f"a call of {'.'.join(named)}")


def _collection(mark: str) -> Callable[[Any], Any]:
    return lambda held: {MARK: mark, "v": list(held)}


def _text(mark: str) -> Callable[[Any], Any]:
    def make(held: Any) -> Any:
        if type(held) is not str:
            raise TypeError("a text is expected")
        return {MARK: mark, "v": held}

    return make


def _path(held: Any) -> Any:
    parts = [str(one) for one in held]
    return {MARK: "path", "v": parts[0] + "/".join(parts[1:]) if parts[:1] == ["/"] else "/".join(parts)}


def _time(held: Any) -> Any:
    text = f"{held['hour']:02}:{held['minute']:02}:{held['second']:02}.{held['microsecond']:06}"
    return {MARK: "time", "v": [text, held["tzinfo"], held["fold"]]}


def _send(held: Any) -> Any:
    node, arg, *timeout = held
    return {MARK: "send", "v": {"node": node, "arg": arg, **({"timeout": timeout[0]} if timeout else {})}}


def _zone_offset(held: Any) -> Any:
    days, seconds, micros = held[0]["v"]
    return {MARK: "timezone", "v": [days * 86400 + seconds + micros / 1e6, held[1] if len(held) > 1 else None]}


def _fields(mark: str, *names: str) -> Callable[[Any], Any]:
    return lambda held: {MARK: mark, "v": {name: held[name] for name in names if held.get(name) is not None}}


def _item(held: Any) -> Any:
    made = {name: {MARK: "datetime", "v": held[name]} for name in ("created_at", "updated_at")}
    return {MARK: "item", "v": {name: held[name] for name in ("value", "key", "namespace")} | made}


def _secret(held: Any) -> Any:
    return {MARK: "secret", "v": {"value": held}}


_STANDARD: Final[dict[tuple[str, str], Callable[[Any], Any]]] = {
    ("uuid", "UUID"): lambda held: {MARK: "uuid", "v": str(UUID(held))},
    ("decimal", "Decimal"): _text("decimal"),
    ("builtins", "set"): _collection("set"),
    ("builtins", "frozenset"): _collection("frozenset"),
    ("builtins", "tuple"): _collection("tuple"),
    ("collections", "deque"): lambda held: {MARK: "deque", "v": [None, list(held)]},
    ("datetime", "datetime"): _text("datetime"),
    ("datetime", "date"): lambda held: {MARK: "date", "v": f"{held[0]:04}-{held[1]:02}-{held[2]:02}"},
    ("datetime", "timedelta"): lambda held: {MARK: "timedelta", "v": [int(one) for one in held]},
    ("datetime", "time"): _time,
    ("datetime", "timezone"): _zone_offset,
    ("zoneinfo", "ZoneInfo"): _text("zone"),
    ("pathlib", "PosixPath"): _path,
    ("pathlib", "Path"): _path,
    ("pathlib._local", "PosixPath"): _path,
    **{
        ("ipaddress", name): _text(name)
        for name in ("IPv4Address", "IPv4Interface", "IPv4Network", "IPv6Address", "IPv6Interface", "IPv6Network")
    },
    ("langgraph.types", "Send"): _send,
    ("langgraph.types", "Interrupt"): _fields("interrupt", "value", "id", "response_schema"),
    ("langgraph.types", "Command"): _fields("command", "graph", "update", "resume", "goto"),
    ("langgraph.types", "Overwrite"): _fields("overwrite", "value"),
    ("langgraph.store.base", "Item"): _item,
    ("langgraph.store.base", "SearchItem"): _item,  # kept there without its score
    ("pydantic.types", "SecretStr"): _secret,
    ("pydantic.types", "SecretBytes"): _secret,
}
