"""`s.state`: a mapping that is saved with the next step.

Values are JSON and are copied on the way in and out of the saved state. A list or mapping that was handed out may be
changed in place: it is compared with what was saved when the next step is committed, so `s.state["done"].append(x)` is
not lost, and the saved state never shows what no step has committed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from typing import Any

from relight.journal.codec import encoded, isolated
from relight.journal.jsonable import check_json
from relight.values.step import Changes

Mark = tuple[dict[str, tuple[Any, bytes | None]], set[str]]


class StateMap(MutableMapping[str, Any]):
    """The saved state with the changes that no step has saved yet."""

    def __init__(self, saved: Callable[[], dict[str, Any]]) -> None:
        self._saved = saved
        self._working: dict[str, tuple[Any, bytes | None]] = {}
        """values read or set, with the bytes saved for them; None if not saved yet"""
        self._unset: set[str] = set()

    def __getitem__(self, key: str) -> Any:
        if key in self._working:
            return self._working[key][0]
        if key in self._unset:
            raise KeyError(key)
        value = self._saved()[key]
        if isinstance(value, list | dict):
            value = isolated(value)
            self._working[key] = (value, encoded(value))
        return value

    def __setitem__(self, key: str, value: Any) -> None:
        check_json({key: value}, root="state")
        self._working[key] = (isolated(value), None)
        self._unset.discard(key)

    def __delitem__(self, key: str) -> None:
        if key not in self:
            raise KeyError(key)
        self._working.pop(key, None)
        if key in self._saved():
            self._unset.add(key)

    def __iter__(self) -> Iterator[str]:
        yield from (key for key in self._saved() if key not in self._unset)
        yield from (key for key in self._working if key not in self._saved())

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return repr(dict(self))

    def pending(self) -> Changes | None:
        """Changes for the next step to save, if any."""
        if not self._working and not self._unset:
            return None
        working = list(self._working.items())  # another thread may set a key meanwhile
        check_json({key: value for key, (value, _) in working}, root="state")
        changed = {key: value for key, (value, before) in working if encoded(value) != before}
        return Changes(state=isolated(changed), unset=sorted(self._unset))

    def taken(self, changes: Changes) -> None:
        """These changes are committed; values handed out are still tracked."""
        for key, value in (changes.state or {}).items():
            if key in self._working:
                self._working[key] = (self._working[key][0], encoded(value))
        self._unset.difference_update(changes.unset)

    def mark(self) -> Mark:
        """A copy of the unsaved changes, for `roll_back`."""
        working = list(self._working.items())
        return {key: (isolated(value), before) for key, (value, before) in working}, set(self._unset)

    def roll_back(self, mark: Mark) -> None:
        """Drop changes made since `mark`."""
        self._working, self._unset = mark
