"""Values that are decoded when somebody looks at them: a list of checkpoints shows many and opens few.

Both are what they stand for, a dict and a list, also for code that asks for the type, copies or compares them. They
hold what they load from without a closure around it: of thousands of rows each object counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, SupportsIndex


class LazyDict(dict[str, Any]):
    """A mapping that is filled at the first look, with what `load` makes of the rest."""

    __slots__ = ("_first", "_load", "_second")

    def __init__(self, load: Callable[[Any, Any], dict[str, Any]], first: Any, second: Any) -> None:
        self._load: Callable[[Any, Any], dict[str, Any]] | None = load
        self._first, self._second = first, second

    def _fill(self) -> None:
        load = self._load
        if load is not None:
            values = load(self._first, self._second)
            if self._load is not None:  # an error leaves it as it was; another thread may have been faster
                self._load = self._first = self._second = None
                super().update(values)

    def __getitem__(self, key: str) -> Any:
        self._fill()
        return super().__getitem__(key)

    def __setitem__(self, key: str, value: Any) -> None:
        self._fill()
        super().__setitem__(key, value)

    def __delitem__(self, key: str) -> None:
        self._fill()
        super().__delitem__(key)

    def __contains__(self, key: object) -> bool:
        self._fill()
        return super().__contains__(key)

    def __iter__(self) -> Iterator[str]:
        self._fill()
        return super().__iter__()

    def __reversed__(self) -> Iterator[str]:
        self._fill()
        return super().__reversed__()

    def __len__(self) -> int:
        self._fill()
        return super().__len__()

    def __eq__(self, other: object) -> bool:
        self._fill()
        return super().__eq__(dict(other) if isinstance(other, LazyDict) else other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None

    def __or__(self, other: Any) -> dict[str, Any]:  # type: ignore[override]
        return {**self, **other}

    def __ror__(self, other: Any) -> dict[str, Any]:  # type: ignore[override]
        return {**other, **self}

    def __repr__(self) -> str:
        self._fill()
        return super().__repr__()

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self.items()),)

    def get(self, key: str, default: Any = None) -> Any:
        """As a dict."""
        self._fill()
        return super().get(key, default)

    def keys(self) -> Any:
        """As a dict."""
        self._fill()
        return super().keys()

    def values(self) -> Any:
        """As a dict."""
        self._fill()
        return super().values()

    def items(self) -> Any:
        """As a dict."""
        self._fill()
        return super().items()

    def copy(self) -> dict[str, Any]:
        """As a dict: a plain one."""
        return dict(self.items())

    def pop(self, *arguments: Any) -> Any:
        """As a dict."""
        self._fill()
        return super().pop(*arguments)

    def setdefault(self, key: str, default: Any = None) -> Any:
        """As a dict."""
        self._fill()
        return super().setdefault(key, default)

    def update(self, *others: Any, **more: Any) -> None:
        """As a dict."""
        self._fill()
        super().update(*others, **more)


class LazyList(list[Any]):
    """A list that is filled at the first look, with what `load` makes of the rest."""

    __slots__ = ("_first", "_load", "_second")

    def __init__(self, load: Callable[[Any, Any], list[Any]], first: Any, second: Any) -> None:
        self._load: Callable[[Any, Any], list[Any]] | None = load
        self._first, self._second = first, second

    def _fill(self) -> None:
        load = self._load
        if load is not None:
            values = load(self._first, self._second)
            if self._load is not None:
                self._load = self._first = self._second = None
                super().extend(values)

    def __getitem__(self, at: SupportsIndex | slice) -> Any:
        self._fill()
        return super().__getitem__(at)

    def __contains__(self, value: object) -> bool:
        self._fill()
        return super().__contains__(value)

    def __iter__(self) -> Iterator[Any]:
        self._fill()
        return super().__iter__()

    def __reversed__(self) -> Iterator[Any]:
        self._fill()
        return super().__reversed__()

    def __len__(self) -> int:
        self._fill()
        return super().__len__()

    def __eq__(self, other: object) -> bool:
        self._fill()
        return super().__eq__(list(other) if isinstance(other, LazyList) else other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None

    def __add__(self, other: Any) -> list[Any]:
        return [*self, *other]

    def __radd__(self, other: Any) -> list[Any]:
        return [*other, *self]

    def __repr__(self) -> str:
        self._fill()
        return super().__repr__()

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(iter(self)),)

    def append(self, value: Any) -> None:
        """As a list."""
        self._fill()
        super().append(value)

    def extend(self, values: Iterable[Any]) -> None:
        """As a list."""
        self._fill()
        super().extend(values)

    def copy(self) -> list[Any]:
        """As a list: a plain one."""
        return list(iter(self))
