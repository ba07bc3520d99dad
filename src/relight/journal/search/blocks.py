"""The index: for every block of 4096 steps, each word with the steps of the block that have it.

A step's place is its number in the order of commits; its block is `place >> 12`, and within it it is 16 bits. A block's
rows are written next to each other, so adding steps is cheap; a word is looked up once in each block, newest first, so
a search ends as soon as it has enough; and a removed session is taken out of its blocks without a word of it left.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Collection, Iterable, Mapping
from typing import Final

BLOCK_BITS: Final = 12
BLOCK_STEPS: Final = 1 << BLOCK_BITS


def block_of(place: int) -> int:
    """The block of a step."""
    return place >> BLOCK_BITS


def place_of(block: int, offset: int) -> int:
    """The place of a step in a block."""
    return block << BLOCK_BITS | offset


def rows_of(steps: Iterable[tuple[int, Collection[str]]]) -> dict[tuple[int, str], bytes]:
    """The rows (block, word) that these steps add, by places in ascending order."""
    found: dict[int, dict[str, array[int]]] = {}
    for place, words in steps:
        rows, offset = found.setdefault(place >> BLOCK_BITS, {}), place & BLOCK_STEPS - 1
        for word in words:
            if word in rows:
                rows[word].append(offset)
            else:
                rows[word] = array("H", (offset,))
    return {(block, word): _stored(row) for block, rows in found.items() for word, row in rows.items()}


def offsets(stored: bytes) -> array[int]:
    """The steps of a row; none if it cannot be one."""
    read = array("H")
    read.frombytes(stored[: len(stored) & ~1])
    if sys.byteorder == "big":
        read.byteswap()
    return read


def without(rows: Mapping[bytes, bytes], going: frozenset[int]) -> dict[bytes, bytes | None]:
    """The rows of a block that change when these steps go: what is left of each, None if nothing."""
    changed: dict[bytes, bytes | None] = {}
    for word, stored in rows.items():
        before = offsets(stored)
        if not going.isdisjoint(before):
            left = array("H", [one for one in before if one not in going])
            changed[word] = _stored(left) if left else None
    return changed


def by_block(places: Iterable[int]) -> dict[int, frozenset[int]]:
    """The steps at these places: block to offsets."""
    found: dict[int, set[int]] = {}
    for place in places:
        found.setdefault(place >> BLOCK_BITS, set()).add(place & BLOCK_STEPS - 1)
    return {block: frozenset(steps) for block, steps in found.items()}


def _stored(row: array[int]) -> bytes:
    if sys.byteorder == "big":
        row = row[:]
        row.byteswap()
    return row.tobytes()
