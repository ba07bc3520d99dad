"""Differences of mappings: which keys are new or changed.

An immutable value (text, number, bytes) that is the same object as before is skipped; anything mutable is encoded and
compared, plain data directly by its MessagePack encoding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from relight.frameworks.langgraph.lists import SLACK
from relight.frameworks.langgraph.records import MapPart
from relight.frameworks.langgraph.redaction import MARK
from relight.journal.codec import encoded

_FIXED: Final = frozenset({str, int, bool, float, bytes, type(None)})
_PLAIN: Final = frozenset({dict, list})
_NOT_THERE: Final = object()

Pack = Callable[[Any, str], bytes]
"""encode the value of this key"""


def is_divisible(value: Any) -> bool:
    """Whether a mapping can be stored by its keys."""
    return type(value) is dict and MARK not in value and all(map(_is_key, value))


def _is_key(key: Any) -> bool:
    """Whether it is a text that is valid UTF-8. The journal keeps any other one too, but only where no type is read."""
    return type(key) is str and (key.isascii() or not any("\ud800" <= one <= "\udfff" for one in key))


def whole(value: Mapping[str, Any], pack: Pack) -> MapPart:
    """A complete mapping, which extends no other."""
    entries = {key: msgspec.Raw(pack(one, key)) for key, one in value.items()}
    return MapPart(size=len(value), entries=entries, weight=len(value))


def part_of(
    value: Mapping[str, Any],
    base: int,
    before: MapPart,
    live: Mapping[str, Any] | None,
    stored: Mapping[str, bytes],
    pack: Pack,
) -> MapPart:
    """The part of a mapping to be written behind another one, which the record `base` holds. A chain of parts that has
    become much longer than its mapping, and one that would bring the keys into another order, is stored whole again.

    `live`: that other mapping's objects, where they are known; `stored`: its entries.
    """
    known = live or {}
    entries: dict[str, msgspec.Raw] = {}
    for key, one in value.items():
        if known.get(key, _NOT_THERE) is one and (type(one) in _FIXED or _is_plainly(one, stored[key])):
            continue
        packed = pack(one, key)
        if stored.get(key) != packed:
            entries[key] = msgspec.Raw(packed)
    gone = [key for key in stored if key not in value]
    weight = before.weight + len(entries) + len(gone)
    stay = [key for key in stored if key in value] if gone else list(stored)
    ordered = [*stay, *(key for key in entries if key not in stored)]
    if weight > 2 * len(value) + SLACK or ordered != list(value):
        return whole(value, pack)
    return MapPart(size=len(value), base=base, gone=gone, entries=entries, weight=weight)


def _is_plainly(one: Any, stored: bytes) -> bool:
    """Whether a list or mapping of plain data has these bytes; False if only encoding it can tell."""
    try:
        return type(one) in _PLAIN and encoded(one) == stored
    except (TypeError, ValueError, RecursionError):
        return False
