"""Objects of the program's own classes as data: pydantic models, dataclasses, named tuples and enums, field by field.

They are put back as unpickling would, but without running any code of theirs: what was valid when it was saved is
restored as it was.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Set
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, Flag
from functools import cache, cached_property
from typing import Any, Final
from uuid import UUID

SELF: Final = frozenset({str, int, bool, type(None)})
"""types whose values are themselves as data"""
_PLAIN: Final = SELF | {float, complex, bytes, Decimal, UUID, date, datetime, time, timedelta, timezone}
_NESTED: Final = 8
"""how deep an attribute is looked into: one that holds itself is none"""


@cache
def way_of(kind: type) -> str | None:
    """How values of a type are stored: model, data, tuple_of or enum; None if they cannot be."""
    if issubclass(kind, Enum):
        return "enum"
    if hasattr(kind, "model_fields") and hasattr(kind, "__pydantic_fields_set__"):
        return "model"
    if dataclasses.is_dataclass(kind):
        return "data" if _begins_empty(kind) else None
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return "tuple_of"
    return None


def _begins_empty(kind: type) -> bool:
    """Whether an object of it can be made without its own code: not that of a class which is a dict or an error too."""
    try:
        object.__new__(kind)
    except TypeError:
        return False
    return True


def fields_of(value: Any, kind: type, way: str) -> dict[str, Any]:
    """What is stored of a value, by name."""
    if way == "model":
        return model_fields(value, kind, given=value.__pydantic_fields_set__)
    if way == "enum":
        return _member_taken(value)
    if way == "tuple_of":
        return dict(zip(kind._fields, value, strict=True))  # type: ignore[attr-defined]
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(kind)}


def attributes_of(value: Any, kind: type) -> dict[str, Any]:
    """The plain data that an object of a dataclass has beside its fields, as from its `__post_init__`. Not what is
    computed from them, and no other objects: connections, locks, the parent of a tree."""
    names = {field.name for field in dataclasses.fields(kind)}
    return {
        name: one
        for name, one in getattr(value, "__dict__", {}).items()
        if name not in names and name.isidentifier() and _is_plain(one) and not _is_computed(kind, name)
    }


def _is_computed(kind: type, name: str) -> bool:
    return any(isinstance(vars(base).get(name), cached_property) for base in kind.__mro__)


def _is_plain(value: Any, within: int = 0) -> bool:
    kind = type(value)
    if kind in _PLAIN:
        return True
    if within == _NESTED or kind not in (list, tuple, set, frozenset, dict):
        return False
    inner = [*value, *value.values()] if kind is dict else value
    return all(_is_plain(one, within + 1) for one in inner)


@cache
def _defaults(kind: Any) -> tuple[dict[str, Any], dict[str, Callable[[], Any]]]:
    """Defaults of a model's fields: constants, and factories."""
    constants: dict[str, Any] = {}
    made: dict[str, Callable[[], Any]] = {}
    for name, field in kind.model_fields.items():
        if field.default_factory is not None:
            made[name] = _factory(field)
        elif not field.is_required():
            value = field.default
            if type(value) in (list, dict, set):
                made[name] = value.copy
            else:
                constants[name] = value
    return constants, made


def _never() -> Any:
    raise ValueError("its default depends on other fields")


def _factory(field: Any) -> Callable[[], Any]:
    if field.default_factory_takes_validated_data:
        return _never
    factory: Callable[[], Any] = field.default_factory
    return factory


def model_fields(value: Any, kind: Any, *, given: Set[str] = frozenset()) -> dict[str, Any]:
    """The fields that differ from their defaults, and the `given` ones; not what is computed from them."""
    constants, made = _defaults(kind)
    known = kind.model_fields
    fields = {
        name: one
        for name, one in value.__dict__.items()
        if name in known and (name in given or not _is_default(name, one, constants, made))
    }
    extra = value.__pydantic_extra__
    return {**fields, **extra} if extra else fields


def _is_default(name: str, one: Any, constants: dict[str, Any], made: dict[str, Callable[[], Any]]) -> bool:
    if name in constants:
        return type(one) in SELF and type(one) is type(constants[name]) and bool(one == constants[name])
    return type(one) in (list, dict) and not one and name in made and made[name] is type(one)


def model_made(kind: Any, fields: dict[str, Any], given: Iterable[str] | None = None) -> Any:
    """Construct the model without its validators, which have accepted these values before. `given`: the fields that
    were set, where these are not the stored ones."""
    constants, made = _defaults(kind)
    known = kind.model_fields
    own = dict(constants)
    extra: dict[str, Any] = {}
    for name, one in fields.items():
        (own if name in known else extra)[name] = one
    for name in known:
        if name not in own:
            factory = made.get(name)
            if factory is None:
                raise ValueError(f"{kind.__name__} has no value for its field {name}")
            own[name] = factory()
    model = object.__new__(kind)  # not its own __new__, which may be code
    keeps_extra = kind.model_config.get("extra") == "allow"
    names = set(fields if given is None else given)
    state = {
        "__dict__": {name: own[name] for name in known},
        "__pydantic_fields_set__": names if keeps_extra else names & set(known),
        "__pydantic_extra__": extra if keeps_extra else None,
        "__pydantic_private__": _private(kind),
    }
    _base_model().__setstate__(model, state)
    return model


def _private(kind: Any) -> dict[str, Any] | None:
    """Private attributes are not stored: they get the values of a new model."""
    attributes = kind.__private_attributes__
    if not attributes:
        return None
    begun = {name: attribute.get_default() for name, attribute in attributes.items()}
    return {name: one for name, one in begun.items() if type(one).__name__ != "PydanticUndefinedType"}


@cache
def _base_model() -> Any:
    from pydantic import BaseModel

    return BaseModel


def _data_made(kind: Any, fields: dict[str, Any]) -> Any:
    made = object.__new__(kind)
    more = dict(fields)
    for field in dataclasses.fields(kind):
        if field.name in more:
            value = more.pop(field.name)
        elif field.default is not dataclasses.MISSING:
            value = field.default
        elif field.default_factory is not dataclasses.MISSING:
            value = field.default_factory()
        else:
            raise ValueError(f"{kind.__name__} has no value for its field {field.name}")
        object.__setattr__(made, field.name, value)
    getattr(made, "__dict__", {}).update(more)
    return made


def _tuple_made(kind: Any, fields: dict[str, Any]) -> Any:
    return tuple.__new__(kind, [fields[name] for name in kind._fields])


def _record_made(kind: Any, fields: dict[str, Any]) -> Any:
    return _tuple_made(kind, fields) if way_of(kind) == "tuple_of" else _data_made(kind, fields)


def _member_taken(member: Enum) -> dict[str, Any]:
    """What is stored of an enum's member: its name; of a flag its value, because combinations have no name."""
    return {"value": member.value} if isinstance(member, Flag) else {"name": member.name}


def _member_made(kind: Any, fields: dict[str, Any]) -> Any:
    """The member again; KeyError or ValueError if there is none. A flag is looked up without code of its own class:
    that of the standard library combines its members."""
    if not issubclass(kind, Flag):
        return kind[fields["name"]] if "name" in fields else kind(fields["value"])
    value = fields["value"] if "value" in fields else _combined(kind, fields["name"])
    known = kind._value2member_map_.get(value)
    return known if known is not None else Flag._missing_.__func__(kind, value)  # type: ignore[attr-defined]


def _combined(kind: Any, name: str | None) -> int:
    """The value of `X|Y` or `X|8`, as combinations were once stored; of none at all, None."""
    total = 0
    for part in name.split("|") if name else ():
        total |= int(part) if part.isdigit() else kind.__members__[part].value
    return total


MADE: Final[dict[str, Callable[[Any, dict[str, Any]], Any]]] = {
    "model": model_made,
    "data": _record_made,
    "tuple_of": _tuple_made,
    "enum": _member_made,
    "dump": lambda kind, fields: kind.model_validate(fields),
}
FITS: Final[dict[str, tuple[str, ...]]] = {
    "model": ("model",),
    "data": ("data", "tuple_of"),  # LangGraph's own savers did not tell them apart
    "tuple_of": ("tuple_of",),
    "enum": ("enum",),
    "dump": ("model",),
}
"""`dump`: a model stored by another saver without the types of its fields; its validators restore them"""
