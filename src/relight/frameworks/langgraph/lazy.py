"""A dict and a list that are decoded at first access: a list of checkpoints shows many and opens few.

They are real dicts and lists, for isinstance, copying, modification and comparison: every method loads first. What they
load from is stored without a closure, because a list may have thousands of them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Final

UNREAD: Final = "not read yet"
"""what a mapping holds until then: `json` does not ask one that is empty. Code in C that takes the memory itself
(orjson, msgspec) sees this key, and not an empty mapping; it is to be given a plain dict"""
_BOTH: Final = (
    "__contains__", "__delitem__", "__eq__", "__getitem__", "__iter__", "__len__", "__ne__", "__repr__",
    "__reversed__", "__setitem__", "clear", "copy", "pop",
)  # fmt: skip
_OF_DICTS: Final = (
    "__ior__", "__or__", "__ror__", "get", "items", "keys", "popitem", "setdefault", "update", "values",
)  # fmt: skip
_OF_LISTS: Final = (
    "__add__", "__ge__", "__gt__", "__iadd__", "__imul__", "__le__", "__lt__", "__mul__", "__rmul__", "append", "count",
    "extend", "index", "insert", "remove", "reverse", "sort",
)  # fmt: skip


class LazyDict(dict[str, Any]):
    """A mapping that `load` fills at first access."""

    __slots__ = ("_first", "_load", "_second")

    def __init__(self, load: Callable[[Any, Any], dict[str, Any]], first: Any, second: Any) -> None:
        self._load: Callable[[Any, Any], dict[str, Any]] | None = load
        self._first, self._second = first, second
        dict.__setitem__(self, UNREAD, None)

    def _fill(self) -> None:
        load = self._load
        if load is not None:
            values = load(self._first, self._second)
            if self._load is not None:  # an error leaves it as it was; another thread may have been faster
                dict.pop(self, UNREAD, None)
                dict.update(self, values)
                self._load = self._first = self._second = None

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (self.copy(),)


class LazyList(list[Any]):
    """A list that `load` fills at first access."""

    __slots__ = ("_first", "_load", "_second")

    def __init__(self, load: Callable[[Any, Any], list[Any]], first: Any, second: Any) -> None:
        self._load: Callable[[Any, Any], list[Any]] | None = load
        self._first, self._second = first, second

    def _fill(self) -> None:
        load = self._load
        if load is not None:
            values = load(self._first, self._second)
            if self._load is not None:
                list.__setitem__(self, slice(None), values)
                self._load = self._first = self._second = None

    def __radd__(self, other: Any) -> list[Any]:
        return [*other, *self]

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (self.copy(),)


def _reading(plain: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a method so that it loads the content first."""

    @wraps(plain)
    def method(*arguments: Any, **named: Any) -> Any:
        for one in arguments:
            if isinstance(one, LazyDict | LazyList):
                one._fill()
        return plain(*arguments, **named)

    return method


for _name in (*_BOTH, *_OF_DICTS):
    setattr(LazyDict, _name, _reading(getattr(dict, _name)))
for _name in (*_BOTH, *_OF_LISTS):
    setattr(LazyList, _name, _reading(getattr(list, _name)))
