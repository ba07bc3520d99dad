"""Values as data: what a channel may hold, to JSON and back. No stored byte names code that is then run.

None, texts, numbers, booleans, lists and mappings with text keys are themselves. Everything else is a mapping with
the key `$`, which says what it is; a user's own mapping that has this key is written as pairs, so that no data can be
taken for a mark. The marks are a closed list: standard types, LangChain's messages, LangGraph's own small types, and
the program's own pydantic models, dataclasses, named tuples and enums. A value of a subclass of a standard type is kept
as its base value. Anything else is refused on save, with the path to it.

On load nothing is ever imported or called by its name. A stored name of a class is looked up among what the program
registered, what it handed over to be saved, and the classes of modules that it has imported (the standard library's and
relight's own excepted); of those only the four kinds above. Such values are put back field by field, as unpickling
would, but without running any code of theirs: what was valid when it was saved is restored as it was. Private
attributes are not stored: they get the values of a new model.
"""

from __future__ import annotations

import dataclasses
import math
import re
import sys
from base64 import b64decode, b64encode
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from functools import cache
from importlib import import_module
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Interface, IPv6Network
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID
from zoneinfo import ZoneInfo

from relight.errors import InvalidMessage, UnknownType, UsageError
from relight.frameworks.langgraph.objects import (
    FITS,
    MADE,
    SELF,
    attributes_of,
    fields_of,
    model_fields,
    model_made,
    way_of,
)
from relight.frameworks.langgraph.redaction import MARK, redacting
from relight.journal.codec import decode_value, encoded
from relight.values.policy import LIMITS

if TYPE_CHECKING:
    from relight.journal.redaction.redactor import Redactor

_MARK_BYTES: Final = b"\xa1$"
"""the mark in MessagePack; data without it needs no translation"""
_ADDRESSES: Final = (IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Interface, IPv6Network)
_MAPPINGS: Final = (defaultdict, OrderedDict, Counter)
"""mappings that are stored as plain ones"""


def type_name(kind: type) -> str:
    """The name of a type in a record."""
    return f"{kind.__module__}.{kind.__qualname__}"


class Values:
    """The codec of one saver, with the types its program registered."""

    def __init__(self, redactor: Callable[[], Redactor] | None = None) -> None:
        """`redactor`: what is packed is redacted first."""
        self._hide = redacting(redactor, frozenset(_OWN)) if redactor is not None else None
        self._types: dict[type, str] = {}
        self._named: dict[str, type] = {}
        self._registered_types: set[type] = set()

    def register(self, kind: type) -> None:
        """Allow a pydantic model, a dataclass, a named tuple or an enum, under its own name."""
        if not isinstance(kind, type) or way_of(kind) is None:
            raise UsageError(
                f"{kind!r} cannot be registered: only pydantic models, dataclasses, named tuples and enums can",
                hints=["turn it into plain data before it goes into a channel"],
            )
        name = type_name(kind)
        if self._named.get(name, kind) is not kind and _is_local(name):
            raise UsageError(f"two types are called {name}", hints=["give one of them another name"])
        self._registered_types.add(kind)
        self._know(kind)

    def _know(self, kind: type) -> str:
        """Whether the program has provided the class: registered, or by a value of it."""
        name = type_name(kind)
        self._types[kind], self._named[name] = name, kind
        self._named.setdefault(f"{kind.__module__}.{kind.__name__}", kind)  # as LangGraph's own savers call it
        return name

    # -- saving -----------------------------------------------------------------------------------------------

    def pack(self, value: Any, path: str) -> bytes:
        """The bytes of a value. UnknownType, InvalidMessage."""
        data = self.encode(value, path)
        return encoded(data if self._hide is None else self._hide(data, path))

    def pack_own(self, value: Any, path: str) -> bytes:
        """The bytes of what LangGraph itself needs to continue: names of channels, versions. Never redacted."""
        return encoded(self.encode(value, path))

    @property
    def divides(self) -> bool:
        """May the entries of a mapping be kept apart? Not where their keys are redacted with them."""
        return self._hide is None

    def encode(self, value: Any, path: str, depth: int = 0) -> Any:
        """The value as data; `path` is its location, for error messages."""
        kind = type(value)
        if kind in SELF:
            return value
        if depth > LIMITS.depth:
            raise InvalidMessage(f"nested deeper than {LIMITS.depth}", path=path)
        if kind is list:
            return [
                one if type(one) in SELF else self.encode(one, f"{path}[{at}]", depth + 1)
                for at, one in enumerate(value)
            ]
        if kind is dict or kind in _MAPPINGS:
            return self._mapping(value, path, depth)
        if kind is float:
            return value if math.isfinite(value) else {MARK: "float", "v": repr(value)}
        way = _STANDARD.get(kind)
        if way is not None:
            return {MARK: way.mark, "v": self.encode(way.take(value), path, depth + 1)}
        return self._object(value, kind, path, depth)

    def _mapping(self, value: Mapping[Any, Any], path: str, depth: int) -> Any:
        if all(type(key) is str for key in value) and MARK not in value:
            return {
                key: one if type(one) in SELF else self.encode(one, f"{path}.{key}", depth + 1)
                for key, one in value.items()
            }
        pairs = [
            [self.encode(key, f"{path}.<key>", depth + 1), self.encode(one, f"{path}[{key!r}]", depth + 1)]
            for key, one in value.items()
        ]
        return {MARK: "map", "v": pairs}

    def _object(self, value: Any, kind: type, path: str, depth: int) -> Any:
        name = _message_names().get(kind)
        if name is not None:
            return {MARK: "message", "t": name, "v": self._fields(model_fields(value, kind), path, depth)}
        name, way = self._types.get(kind), way_of(kind)
        if name is None:
            own = _own_names().get(type_name(kind))
            if own is not None:
                return {MARK: own, "v": self._fields(_OWN[own].take(value), path, depth)}
            if isinstance(value, BaseException):
                return {MARK: "error", "v": _shown(value)}
        if way is not None:
            name = name or self._know(kind)
            return {MARK: way, "t": name, **self._own(value, kind, way, path, depth)}
        if isinstance(value, PurePath):
            mark = "windows_path" if isinstance(value, PureWindowsPath) else "path"
            return {MARK: mark if isinstance(value, Path) else f"pure_{mark}", "v": str(value)}
        if _is_array(value, texts=self._hide is None):
            return {MARK: "array", "v": _array_taken(value)}
        for base in kind.__mro__[1:]:
            if (plain := _PLAIN.get(base)) is not None:
                return self.encode(plain(value), path, depth)
            if (standard := _STANDARD.get(base)) is not None:
                return {MARK: standard.mark, "v": self.encode(standard.take(value), path, depth + 1)}
        raise UnknownType(type_name(kind), path=path)

    def _own(self, value: Any, kind: Any, way: str, path: str, depth: int) -> dict[str, Any]:
        """What is stored of an object of the program's own class."""
        fields = fields_of(value, kind, way)
        data = self._fields(fields, path, depth)
        if way == "data":
            data |= self._fields(attributes_of(value, kind), path, depth)
        if way == "model" and not value.__pydantic_fields_set__ >= fields.keys() & kind.model_fields.keys():
            return {"v": data, "set": sorted(value.__pydantic_fields_set__)}
        return {"v": data}

    def _fields(self, fields: dict[str, Any], path: str, depth: int) -> dict[str, Any]:
        """Fields by name; they are attribute names, so none can be a mark."""
        return {
            key: one if type(one) in SELF else self.encode(one, f"{path}.{key}", depth + 1)
            for key, one in fields.items()
        }

    # -- loading ----------------------------------------------------------------------------------------------

    def unpack(self, data: bytes | memoryview, path: str) -> Any:
        """Decode a value. UnknownType if its type is not registered; Undecodable."""
        value = decode_value(data)
        return self.decode(value, path) if _MARK_BYTES in bytes(data) else value

    def decode(self, data: Any, path: str) -> Any:
        """The value of a piece of data."""
        kind = type(data)
        if kind is list:
            return [one if type(one) in SELF else self.decode(one, f"{path}[{at}]") for at, one in enumerate(data)]
        if kind is not dict:
            return data
        if MARK not in data:
            return {key: one if type(one) in SELF else self.decode(one, f"{path}.{key}") for key, one in data.items()}
        return self._marked(data, path)

    def _marked(self, data: dict[str, Any], path: str) -> Any:
        mark: Any = data[MARK]
        held: Any = data.get("v")
        try:
            if mark == "message":
                return self._message(data, path)
            if mark in MADE:
                return self._registered(mark, data, path)
            if mark == "map":
                return {_key(self.decode(key, path)): self.decode(one, path) for key, one in held}
            if mark in _OWN:
                return _OWN[mark].make(self._decoded(held, path))
            way = _BY_MARK.get(mark)
            if way is None:
                raise UnknownType(str(mark), path=path, stored=True)
            return way.make(self.decode(held, path))
        except (TypeError, ValueError, KeyError, AttributeError, ArithmeticError) as error:
            raise InvalidMessage(f"a stored {mark!r} that cannot be one: {error}", path=path) from None

    def _decoded(self, fields: Any, path: str) -> dict[str, Any]:
        return {key: one if type(one) in SELF else self.decode(one, f"{path}.{key}") for key, one in fields.items()}

    def _message(self, data: dict[str, Any], path: str) -> Any:
        kind = _messages().get(data["t"])
        if kind is None:
            raise UnknownType(f"langchain_core.messages.{data['t']}", path=path, stored=True)
        return model_made(kind, self._decoded(data["v"], path))

    def _registered(self, mark: str, data: dict[str, Any], path: str) -> Any:
        name = str(data["t"])
        kind = self._named.get(name) or _imported(name)
        if mark == "dump" and kind not in self._registered_types:
            kind = None  # its validators are code: they run for classes that the program registered, and no others
        if kind is None or way_of(kind) not in FITS[mark]:
            raise UnknownType(name, path=path, stored=True)
        if mark == "model":
            return model_made(kind, self._decoded(data["v"], path), data.get("set"))
        return MADE[mark](kind, self._decoded(data["v"], path))


_PLAIN: Final[dict[type, Callable[[Any], Any]]] = {
    str: str.__str__,
    int: lambda value: int.__add__(value, 0),
    float: lambda value: float.__add__(value, 0.0),
    list: lambda value: [*list.__iter__(value)],
    dict: lambda value: dict(dict.items(value)),
}
"""the base value of a subclass, by the method of the base class: an override may return something else"""


def _imported(name: str) -> type | None:
    """The class of this dotted name in a module that the program has imported; None where there is none. Nothing is
    imported, and no attribute hook of a module or class is asked. A generic model with parameters is no attribute of a
    module: it is one that the program has made of it, or else the model without them."""
    plain, parameters, _ = name.partition("[")
    found = _attribute(plain)
    if found is None or not parameters:
        return found
    made: list[type] = type.__subclasses__(found)
    return next((one for one in made if type_name(one) == name), found)


def _attribute(name: str) -> type | None:
    parts = name.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        module = sys.modules.get(".".join(parts[:cut]))
        if module is None:
            continue
        if parts[0] in sys.stdlib_module_names or parts[0] == "relight":
            return None
        found: Any = module
        for part in parts[cut:]:
            found = vars(found).get(part) if isinstance(found, type | ModuleType) else None
        return found if isinstance(found, type) and way_of(found) is not None and type_name(found) == name else None
    return None


def _is_local(name: str) -> bool:
    return "<locals>" in name


def _shown(error: BaseException) -> str:
    try:
        return repr(error)
    except Exception:  # an error type of the user, whose repr fails in turn: its type is named
        return type(error).__name__


def _key(value: Any) -> Any:
    hash(value)
    return value


# -- standard types ------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _Way:
    """How a type is converted to data and constructed again."""

    mark: str
    take: Callable[[Any], Any]
    make: Callable[[Any], Any]


def _timezone_taken(value: timezone) -> list[Any]:
    """Offset and name of a fixed time zone."""
    offset = value.utcoffset(None)
    return [offset.days * 86400 + offset.seconds + offset.microseconds / 1e6, value.tzname(None)]


def _timezone_made(data: list[Any]) -> timezone:
    """The fixed time zone again."""
    offset = timedelta(seconds=data[0])
    plain = timezone(offset)
    return plain if data[1] in (None, plain.tzname(None)) else timezone(offset, data[1])


def _moment_taken(value: datetime | time) -> Any:
    """A point in time, or a time of day: its text, and where it has a zone, that."""
    zone = _kept(value)
    if zone is None and not value.fold:
        return value.isoformat()
    return [value.replace(tzinfo=None, fold=0).isoformat(), zone, value.fold]


def _kept(value: datetime | time) -> tzinfo | None:
    """Its time zone as one of the standard library: those of pydantic, pytz or dateutil are code, and the moment keeps
    its offset, as by LangGraph's own savers. The zone itself, which is then refused, where it has none."""
    zone = value.tzinfo
    if zone is None or isinstance(zone, timezone) or (isinstance(zone, ZoneInfo) and zone.key is not None):
        return zone
    offset = value.utcoffset()
    return zone if offset is None else timezone(offset)


def _moment_made(kind: Any) -> Callable[[Any], Any]:
    def make(data: Any) -> Any:
        if isinstance(data, str):
            return kind.fromisoformat(data)
        return kind.fromisoformat(data[0]).replace(tzinfo=data[1], fold=data[2])

    return make


def _span_taken(value: timedelta) -> list[int]:
    """A duration by its parts."""
    return [value.days, value.seconds, value.microseconds]


def _float_made(text: str) -> float:
    if text not in ("nan", "inf", "-inf"):
        raise ValueError(f"{text!r} is no float that needs a mark")
    return float(text)


_STANDARD: Final[dict[type, _Way]] = {
    bytes: _Way("bytes", lambda value: b64encode(value).decode(), lambda text: b64decode(text, validate=True)),
    memoryview: _Way(
        "bytes", lambda value: b64encode(value.tobytes()).decode(), lambda text: b64decode(text, validate=True)
    ),
    bytearray: _Way("bytearray", lambda value: b64encode(value).decode(), lambda text: bytearray(b64decode(text))),
    tuple: _Way("tuple", list, tuple),
    set: _Way("set", list, set),
    frozenset: _Way("frozenset", list, frozenset),
    deque: _Way("deque", lambda value: [value.maxlen, list(value)], lambda data: deque(data[1], data[0])),
    datetime: _Way("datetime", _moment_taken, _moment_made(datetime)),
    time: _Way("time", _moment_taken, _moment_made(time)),
    date: _Way("date", lambda value: value.isoformat(), date.fromisoformat),
    timedelta: _Way("timedelta", _span_taken, lambda data: timedelta(*data)),
    timezone: _Way("timezone", _timezone_taken, _timezone_made),
    ZoneInfo: _Way("zone", lambda value: value.key, ZoneInfo),
    UUID: _Way("uuid", str, UUID),
    Decimal: _Way("decimal", str, Decimal),
    **{kind: _Way(kind.__name__, str, kind) for kind in _ADDRESSES},
    re.Pattern: _Way("pattern", lambda value: [value.pattern, value.flags], lambda data: re.compile(data[0], data[1])),
    complex: _Way("complex", lambda value: [value.real, value.imag], lambda data: complex(*data)),
}
# -- arrays of numpy -----------------------------------------------------------------------------------------------

_NUMBERS: Final = "biufcmM"
_TEXTS: Final = "SU"
_GET_NUMPY: Final = ("pip install numpy",)
_ARRAY_TYPE: Final = re.compile(r"[<>|=][biufcmMSU]\d+(\[\w+\])?\Z")
"""what a stored type may be; numpy reads more than that from a text"""


def _is_array(value: Any, *, texts: bool) -> bool:
    """Whether it is an array of numbers or times, or of `texts` where these are not redacted. Those of objects and
    records are no data."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and type(value) is numpy.ndarray and value.dtype.kind in _NUMBERS + _TEXTS * texts


def _array_taken(value: Any) -> list[Any]:
    order = "F" if value.flags.f_contiguous and not value.flags.c_contiguous else "C"
    return [value.dtype.str, list(value.shape), order, b64encode(value.tobytes(order=order)).decode()]


def _array_made(data: list[Any]) -> Any:
    """The array, as one that can be written to. numpy is imported only here."""
    try:
        numpy: Any = import_module("numpy")
    except ImportError:
        raise UsageError("a stored value is an array of numpy, which is not installed", hints=_GET_NUMPY) from None
    kind, shape, order, content = data
    if not _ARRAY_TYPE.match(kind):
        raise ValueError(f"{kind!r} is no type of an array")
    return numpy.ndarray(shape, numpy.dtype(kind), bytearray(b64decode(content, validate=True)), order=order)


_BY_MARK: Final[dict[str, _Way]] = {
    **{way.mark: way for way in _STANDARD.values()},
    "float": _Way("float", repr, _float_made),
    "error": _Way("error", repr, str),
    "path": _Way("path", str, Path),
    "pure_path": _Way("pure_path", str, PurePosixPath),
    "pure_windows_path": _Way("pure_windows_path", str, PureWindowsPath),
    "array": _Way("array", _array_taken, _array_made),
}


# -- types of LangGraph's own --------------------------------------------------------------------------------------


def _send_taken(value: Any) -> dict[str, Any]:
    fields = {"node": value.node, "arg": value.arg}
    timeout = getattr(value, "timeout", None)
    return fields if timeout is None else {**fields, "timeout": timeout}


def _interrupt_taken(value: Any) -> dict[str, Any]:
    fields = {"value": value.value, "id": value.id}
    schema = getattr(value, "response_schema", None)
    return {**fields, "response_schema": schema} if isinstance(schema, dict) else fields


def _types() -> Any:
    from langgraph import types

    return types


def _snapshot(value: Any) -> Any:
    from langgraph.checkpoint.serde.types import _DeltaSnapshot

    return _DeltaSnapshot(value)


def _item(fields: dict[str, Any]) -> Any:
    from langgraph.store.base import Item, SearchItem

    kind = SearchItem if "score" in fields else Item
    return kind(**{**fields, "namespace": tuple(fields["namespace"])})


def _secret(value: Any) -> Any:
    from pydantic import SecretBytes, SecretStr

    return SecretBytes(value) if isinstance(value, bytes) else SecretStr(value)


_ITEM: Final = ("value", "key", "namespace", "created_at", "updated_at")


def _attributes(*names: str) -> Callable[[Any], dict[str, Any]]:
    return lambda value: {name: getattr(value, name) for name in names}


_OWN: Final[dict[str, _Way]] = {
    "send": _Way("send", _send_taken, lambda data: _types().Send(data.pop("node"), data.pop("arg"), **data)),
    "interrupt": _Way("interrupt", _interrupt_taken, lambda data: _types().Interrupt(**data)),
    "command": _Way("command", _attributes("graph", "update", "resume", "goto"), lambda data: _types().Command(**data)),
    "overwrite": _Way("overwrite", _attributes("value"), lambda data: _types().Overwrite(data["value"])),
    "timeout": _Way("timeout", dataclasses.asdict, lambda data: _types().TimeoutPolicy(**data)),
    "snapshot": _Way("snapshot", _attributes("value"), lambda data: _snapshot(data["value"])),
    "item": _Way("item", _attributes(*_ITEM), _item),
    "found": _Way("found", _attributes(*_ITEM, "score"), _item),
    "secret": _Way("secret", lambda value: {"value": value.get_secret_value()}, lambda data: _secret(data["value"])),
}


@cache
def _own_names() -> dict[str, str]:
    return {
        "langgraph.types.Send": "send",
        "langgraph.types.Interrupt": "interrupt",
        "langgraph.types.Command": "command",
        "langgraph.types.Overwrite": "overwrite",
        "langgraph.types.TimeoutPolicy": "timeout",
        "langgraph.checkpoint.serde.types._DeltaSnapshot": "snapshot",
        "langgraph.store.base.Item": "item",
        "langgraph.store.base.SearchItem": "found",
        "pydantic.types.SecretStr": "secret",
        "pydantic.types.SecretBytes": "secret",
    }


# -- LangChain's messages ------------------------------------------------------------------------------------------

MESSAGES: Final = (
    "AIMessage", "AIMessageChunk", "ChatMessage", "ChatMessageChunk", "FunctionMessage", "FunctionMessageChunk",
    "HumanMessage", "HumanMessageChunk", "RemoveMessage", "SystemMessage", "SystemMessageChunk", "ToolMessage",
    "ToolMessageChunk",
)  # fmt: skip


@cache
def _messages() -> dict[str, type]:
    """Message classes by their names in records; documents occur in messages."""
    from langchain_core import documents, messages

    return {name: getattr(messages, name) for name in MESSAGES} | {"Document": documents.Document}


@cache
def _message_names() -> dict[type, str]:
    return {kind: name for name, kind in _messages().items()}
