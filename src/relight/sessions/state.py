"""`s.state`: a mapping that is saved with the next step.

Values are JSON and are copied on the way in and out of the saved state. A list or mapping that was handed out may be
changed in place: it is compared with what was saved when the next step is committed, so `s.state["done"].append(x)` is
not lost, and the saved state never shows what no step has committed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from typing import Any, Final, TypeAlias

from relight.journal.codec import encoded, isolated
from relight.journal.jsonable import check_json
from relight.values.step import Changes

_TRIES: Final = 100
"""to read values that other threads change meanwhile"""
Working: TypeAlias = dict[str, tuple[Any, bytes | None]]


class Mark:
    """The unsaved changes when a batch began, to return to if it raises."""

    def __init__(self, batch: object, working: Working, unset: set[str]) -> None:
        self.batch = batch
        self.working = working
        self.unset = unset
        self.others: set[str] = set()
        """keys that were saved since, or set or deleted outside of the batch: by another task or thread"""


class StateMap(MutableMapping[str, Any]):
    """The saved state with the changes that no step has saved yet."""

    def __init__(self, saved: Callable[[], dict[str, Any]], batch: Callable[[], object]) -> None:
        """`batch` returns the batch that the caller is in, or None."""
        self._saved = saved
        self._batch = batch
        self._working: Working = {}
        """values read or set, with the bytes saved for them; None if not saved yet"""
        self._unset: set[str] = set()
        self._in_flight: frozenset[str] = frozenset()
        """keys that the step being committed saves"""
        self._marks: list[Mark] = []
        """of the batches that have not ended"""

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
        self._note_change(key)
        self._working[key] = (isolated(value), None)
        self._unset.discard(key)

    def __delitem__(self, key: str) -> None:
        if key not in self:
            raise KeyError(key)
        self._note_change(key)
        self._working.pop(key, None)
        if key in self._saved() or key in self._in_flight:
            self._unset.add(key)

    def __iter__(self) -> Iterator[str]:
        # Lists: a step that another thread commits meanwhile would change the size of what is iterated.
        yield from [key for key in list(self._saved()) if key not in self._unset]
        yield from [key for key in list(self._working) if key not in self._saved()]

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return repr(dict(self))

    def pending(self) -> Changes | None:
        """Changes for the next step to save, if any."""
        if not self._working and not self._unset:
            return None
        for _ in range(_TRIES):
            try:
                return self._pending()
            except RuntimeError:  # another thread, or the event loop, changed the size of a mapping meanwhile
                continue
        return self._pending()

    def _pending(self) -> Changes:
        working = list(self._working.items())  # another thread may set a key meanwhile
        check_json({key: value for key, (value, _) in working}, root="state")
        changed = {key: value for key, (value, before) in working if encoded(value) != before}
        self._in_flight = frozenset(changed)
        return Changes(state=isolated(changed), unset=sorted(self._unset))

    def taken(self, changes: Changes) -> None:
        """These changes are committed; values handed out are still tracked."""
        for mark in self._marks:
            mark.others.update(changes.state or (), changes.unset)
        for key, value in (changes.state or {}).items():
            held = self._working.get(key)
            if held is not None:
                self._working[key] = (held[0], encoded(value))
        self._in_flight = frozenset()
        self._unset.difference_update(changes.unset)

    def clear(self) -> None:
        """Drop all changes that are not saved."""
        for mark in self._marks:
            mark.others.update(mark.working, mark.unset, self._working, self._unset)
        self._working, self._unset = {}, set()

    # -- batches ----------------------------------------------------------------------------------------------

    def mark(self, batch: object) -> Mark:
        """A copy of the unsaved changes where a batch begins, for `roll_back` or `forget`."""
        working = list(self._working.items())
        copies = {key: (isolated(value), before) for key, (value, before) in working}
        mark = Mark(batch, copies, set(self._unset))
        self._marks.append(mark)
        return mark

    def _note_change(self, key: str) -> None:
        if self._marks:
            batch = self._batch()
            for mark in self._marks:
                if mark.batch is not batch:
                    mark.others.add(key)

    def roll_back(self, mark: Mark) -> None:
        """Drop what the batch changed, and nothing that others changed or saved meanwhile."""
        self.forget(mark)
        # In place: another thread may set a key at this moment.
        for key in {*self._working, *mark.working} - mark.others:
            if key in mark.working:
                self._working[key] = mark.working[key]
            else:
                self._working.pop(key, None)
        self._unset.symmetric_difference_update((self._unset ^ mark.unset) - mark.others)

    def forget(self, mark: Mark) -> None:
        """The batch is committed."""
        if mark in self._marks:
            self._marks.remove(mark)
