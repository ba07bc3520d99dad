"""Writes that arrive before their checkpoint, as when another saver's history is copied write by write.

No reader can see such a write before its checkpoint exists, so it is kept in memory and saved with the checkpoint. It
is not durable until then: on disk it could not be distinguished from a late write that would recreate a deleted thread.
A program that ends before has not saved the checkpoint either.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

MAX: Final = 1_000
"""writes that wait; the next one is refused like any write without a checkpoint"""


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """What one `put_writes` was given."""

    task: str
    path: str
    writes: tuple[tuple[str, Any], ...]


class EarlyWrites:
    """Of one thread; use it under that one's lock."""

    def __init__(self) -> None:
        self._by_checkpoint: dict[tuple[str, str], list[Given]] = {}
        self._count = 0

    def __bool__(self) -> bool:
        return self._count > 0

    def takes(self, ns: str, id: str, given: Given, *, may_come: Callable[[str], bool]) -> bool:
        """Keep this write, if its checkpoint is not there and may still come."""
        if self._count >= MAX or not may_come(id):
            return False
        self._by_checkpoint.setdefault((ns, id), []).append(given)
        self._count += 1
        return True

    def given_back(self, ns: str, id: str) -> Sequence[Given]:
        """The writes of a checkpoint that is saved now, in the order they came."""
        found = self._by_checkpoint.pop((ns, id), [])
        self._count -= len(found)
        return found
