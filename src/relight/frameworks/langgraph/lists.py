"""Differences of lists: which elements are new. Elements that are the same objects as before are not encoded again.

A reducer such as `add_messages` builds a new list of the same objects, so identity finds what is kept: mostly a common
beginning, after a removal or replacement some ranges. If the objects are others (another process wrote the parent), the
encoded elements are compared instead.

An object may be modified in place, although LangGraph asks for new ones. So the last elements, where that happens, and
a few others in rotation are checked for parts that are no longer the same objects; changed ones are written again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import is_
from typing import Any, Final

import msgspec

from relight.frameworks.langgraph.conversation import NEW
from relight.frameworks.langgraph.records import ListPart

_LOOKED_AT: Final = 8
"""elements at the end, and as many others in rotation, that are checked for changes in place"""
SLACK: Final = 64
"""a list is stored whole again when its chain of parts has so many elements more than twice those of the list"""
_MAX_PIECES: Final = 32
_FEW: Final = 12
"""nested parts of an element that are checked"""
_MUTABLE: Final = (list, dict, set)

Pack = Callable[[Any, int], bytes]
"""encode the element at this position"""


class Live:
    """A list as it was saved last: its objects and its record."""

    __slots__ = ("elements", "prints", "seq", "turn")

    def __init__(self, seq: int, elements: list[Any]) -> None:
        self.seq = seq
        self.elements = elements
        self.prints = [_print(one) for one in elements]
        self.turn = 0

    def same(self, value: Sequence[Any]) -> int:
        """Number of elements at the beginning that are unchanged."""
        most = min(len(value), len(self.elements))
        if all(map(is_, value, self.elements)):
            first = most
        else:
            first = next(at for at in range(most) if value[at] is not self.elements[at])
        for at in range(max(0, first - _LOOKED_AT), first):
            if not self.is_whole(at):
                return at
        rest = first - _LOOKED_AT
        if rest > 0:
            for step in range(min(_LOOKED_AT, rest)):
                if not self.is_whole((self.turn + step) % rest):
                    return next(at for at in range(rest) if not self.is_whole(at))
            self.turn = (self.turn + _LOOKED_AT) % rest
        return first

    def is_whole(self, at: int) -> bool:
        """Whether an element still has the parts that it was saved with."""
        before = self.prints[at]
        if before is None:
            return True
        now = _print(self.elements[at])
        return now is not None and len(now) == len(before) and all(map(is_, now, before))

    def goes_on(self, seq: int, keep: int, added: Sequence[Any]) -> None:
        """Use what was just saved for the next comparison."""
        self.seq = seq
        del self.elements[keep:], self.prints[keep:]
        self.elements.extend(added)
        self.prints.extend(map(_print, added))


def whole(value: Sequence[Any], pack: Pack, *, old: int = 0) -> ListPart:
    """A complete list, which extends no other."""
    add = [msgspec.Raw(pack(one, at)) for at, one in enumerate(value)]
    return ListPart(size=len(value), add=add, weight=len(value), old=old)


def part_of(
    value: Sequence[Any], base: int, before: ListPart, live: Live | None, stored: Callable[[], list[bytes]], pack: Pack
) -> ListPart:
    """The part of a list to be written behind another one, which the record `base` holds. A chain of parts that has
    become much longer than its list is replaced by the whole list.

    `live`: that other list's objects, where they are known; `stored`: its elements.
    """
    size = len(value)
    keep, positions, packed = _placed(value, before.size, live, stored, pack)
    fresh = [at for at, position in enumerate(positions, keep) if position == NEW]
    weight = before.weight + len(fresh)
    if len(fresh) == size or weight > 2 * size + SLACK:
        return whole(value, pack, old=fresh[0] if fresh else size)
    pieces = _pieces(positions)
    if len(pieces) > _MAX_PIECES:
        fresh, pieces = list(range(keep, size)), []
    add = [msgspec.Raw(packed.get(at) or pack(value[at], at)) for at in fresh]
    return ListPart(size=size, base=base, keep=keep, then=pieces, add=add, weight=before.weight + len(add))


def _placed(
    value: Sequence[Any], size: int, live: Live | None, stored: Callable[[], list[bytes]], pack: Pack
) -> tuple[int, list[int], dict[int, bytes]]:
    """Number of kept elements at the beginning, origin of each other one, and what was encoded to compare."""
    keep = live.same(value) if live is not None else 0
    if keep == min(len(value), size):
        return keep, [NEW] * (len(value) - keep), {}
    objects = {id(one): at for at, one in enumerate(live.elements)} if live is not None else {}
    held = stored()
    known: dict[bytes, int] | None = None
    positions: list[int] = []
    packed: dict[int, bytes] = {}
    follows = keep
    for at in range(keep, len(value)):
        position = objects.get(id(value[at]), NEW)
        if position != NEW and live is not None and not live.is_whole(position):
            position = NEW
        if position == NEW and follows < size:
            one = packed[at] = pack(value[at], at)
            if held[follows] == one:
                position = follows
            elif live is None:
                if known is None:
                    known = {element: position for position, element in enumerate(held)}
                position = known.get(one, NEW)
        positions.append(position)
        follows = position + 1 if position != NEW else follows
    more = next((at for at, position in enumerate(positions) if position != keep + at), len(positions))
    return keep + more, positions[more:], packed


def _pieces(positions: Sequence[int]) -> list[tuple[int, int]]:
    """The origins as ranges, without new elements at the end."""
    pieces: list[tuple[int, int]] = []
    for position in positions:
        start, count = pieces[-1] if pieces else (NEW, 0)
        if count and (position == start == NEW or (start != NEW and position == start + count)):
            pieces[-1] = start, count + 1
        else:
            pieces.append((position, 1))
    return pieces[:-1] if pieces and pieces[-1][0] == NEW else pieces


def _print(value: Any) -> list[Any] | None:
    """The parts of an element and their mutable parts; None if it is immutable."""
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
        if type(part) in _MUTABLE and part:
            parts.extend(part.values() if type(part) is dict else part)
    return parts
