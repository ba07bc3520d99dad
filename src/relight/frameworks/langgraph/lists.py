"""Which part of a list is new. Elements that are the same objects as before are not looked into again.

A reducer such as `add_messages` makes a new list of the same objects, so identity finds the common beginning at once.
Where the objects are others (another process wrote the parent), the encoded elements are compared instead.

An object may be changed in place, though LangGraph asks for new ones: so of the last elements, which is where that
happens, and of a few others in turn, it is seen whether their parts are still the same objects. What is found
changed is written anew, with everything behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import is_
from typing import Any, Final

import msgspec

from relight.frameworks.langgraph.records import ListPart

_LOOKED_AT: Final = 8
"""elements at the end, and as many others in turn, that are looked at for changes in place"""
_SLACK: Final = 64
_FEW: Final = 12
"""parts of an element that are themselves looked into"""
_MUTABLE: Final = (list, dict, set)

Pack = Callable[[Any, int], bytes]
"""encode the element at this position"""


class Live:
    """A list as it was saved last: the objects, and the record that holds it."""

    __slots__ = ("elements", "prints", "seq", "turn", "weight")

    def __init__(self, seq: int, elements: list[Any], weight: int) -> None:
        self.seq, self.weight = seq, weight
        self.elements = elements
        self.prints = [_print(one) for one in elements]
        self.turn = 0

    def same(self, value: Sequence[Any]) -> int:
        """How many elements at the beginning are still what was saved."""
        most = min(len(value), len(self.elements))
        if all(map(is_, value, self.elements)):
            first = most
        else:
            first = next(at for at in range(most) if value[at] is not self.elements[at])
        for at in range(max(0, first - _LOOKED_AT), first):
            if not _is_same(self.prints[at], value[at]):
                return at
        rest = first - _LOOKED_AT
        if rest > 0:
            for step in range(min(_LOOKED_AT, rest)):
                at = (self.turn + step) % rest
                if not _is_same(self.prints[at], value[at]):
                    return self._first_changed(value, at)
            self.turn = (self.turn + _LOOKED_AT) % rest
        return first

    def _first_changed(self, value: Sequence[Any], known: int) -> int:
        return next(at for at in range(known + 1) if not _is_same(self.prints[at], value[at]))

    def goes_on(self, seq: int, keep: int, added: Sequence[Any], weight: int) -> None:
        """What was just saved is what counts from now on."""
        self.seq, self.weight = seq, weight
        del self.elements[keep:], self.prints[keep:]
        self.elements.extend(added)
        self.prints.extend(map(_print, added))


def part_of(value: list[Any], keep: int, base: int, base_weight: int, pack: Pack) -> ListPart:
    """The part to be written. A chain of parts that has become much longer than its list begins anew."""
    size = len(value)
    weight = base_weight + size - keep
    if not keep or weight > 2 * size + _SLACK:
        return ListPart(size=size, add=[msgspec.Raw(pack(one, at)) for at, one in enumerate(value)], weight=size)
    add = [msgspec.Raw(pack(value[at], at)) for at in range(keep, size)]
    return ListPart(size=size, base=base, keep=keep, add=add, weight=weight)


def same_encoded(value: Sequence[Any], stored: Sequence[bytes], pack: Pack) -> int:
    """How many elements at the beginning have the same bytes."""
    for at, (one, before) in enumerate(zip(value, stored, strict=False)):
        if pack(one, at) != before:
            return at
    return min(len(value), len(stored))


def _print(value: Any) -> list[Any] | None:
    """The parts of an element, and the parts of those that can change; None where nothing of it can."""
    kind = type(value)
    if kind is dict:
        parts = list(value.values())
    elif kind is list:
        parts = value.copy()
    else:
        held = getattr(value, "__dict__", None)
        if held is None:
            return None
        parts = list(held.values())
    for part in parts[:_FEW]:
        if part and type(part) in _MUTABLE:
            parts.extend(part.values() if type(part) is dict else part)
    return parts


def _is_same(before: list[Any] | None, value: Any) -> bool:
    if before is None:
        return True
    now = _print(value)
    return now is not None and len(now) == len(before) and all(map(is_, now, before))
