"""The index of a store: what a store has whose `StoreInfo.indexed` is true. Any other is searched by reading it.

Guarantees: a committed step is either in the index or among the unindexed ones, from its commit on; adding steps to the
index is one transaction; a removed session is in neither, and no word of it is left.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

import msgspec


class StoredText(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A step as a search reads it."""

    place: int
    """its number in the order of commits"""
    session: str
    seq: int
    kind: str
    at_us: int
    label: str | None
    body: bytes


class Words(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The words of a step that is not in the index yet."""

    place: int
    session: str
    seq: int
    words: Collection[str]


class IndexedStore(Protocol):
    """An index of words, in blocks (journal/search/blocks.py). Which words a step has, the store does not know."""

    def count_unindexed(self) -> int:
        """How many steps are not in the index yet."""
        ...

    def list_unindexed(self, limit: int, *, newest: bool = False) -> list[StoredText]:
        """Steps that are not in the index yet, oldest first, or newest first; fewer where they are large."""
        ...

    def index_steps(self, steps: Sequence[Words]) -> bool:
        """Add the oldest unindexed steps, in one transaction. False if they are not those any more: another process
        added or removed some; read again."""
        ...

    def newest_block(self) -> int:
        """The newest block that has steps in the index; -1 if none has."""
        ...

    def find_words(self, first: str, last: str, blocks: Sequence[int]) -> list[tuple[int, bytes]]:
        """The rows of all words from `first` to `last` (inclusive, by code points) in these blocks."""
        ...

    def list_jumps(self, session: str, *, after: int) -> list[tuple[int, int]]:
        """(seq, base) of the session's own steps behind a seq that do not build on the step before them, ascending."""
        ...

    def read_places(self, places: Sequence[int]) -> list[StoredText]:
        """The steps at these places that still exist, in any order."""
        ...
