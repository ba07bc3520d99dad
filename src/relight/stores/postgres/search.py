"""The index of words in the same database (`ports/search.py`). A commit notes its step as unindexed, in the step's own
transaction.

Steps move into the index in a transaction that compares them with those that were read, under a lock that a removal
takes too, so that a session that was removed meanwhile leaves no word.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from relight.journal.search import blocks
from relight.ports.search import StoredText, Words
from relight.stores.postgres.connections import Cursor
from relight.stores.postgres.rows import from_bytes, optional_text, to_bytes
from relight.stores.postgres.statements import SQL
from relight.stores.stored_rows import Row

BATCH_BYTES: Final = 4 * 1024 * 1024
"""of bodies that are read at once, beyond the first"""


def count_unindexed(cursor: Cursor) -> int:
    """How many steps are not in the index."""
    return int(_one(cursor, "count_unindexed"))


def list_unindexed(cursor: Cursor, limit: int, *, newest: bool) -> list[StoredText]:
    """Steps that are not in the index, in the order of their commits or the newest first."""
    name = "newest_unindexed" if newest else "unindexed"
    return [_read(row) for row in cursor.execute(SQL[name], (limit, BATCH_BYTES)).fetchall()]


def read_places(cursor: Cursor, places: Sequence[int]) -> list[StoredText]:
    """The steps at these places."""
    return [_read(row) for row in cursor.execute(SQL["texts_at"], (list(places),)).fetchall()]


def _read(row: Row) -> StoredText:
    place, session, seq, kind, at_us, label, body = row
    return StoredText(
        place=place,
        session=from_bytes(session),
        seq=seq,
        kind=kind,
        at_us=at_us,
        label=optional_text(label),
        body=body,
    )


def list_jumps(cursor: Cursor, session: str, after: int) -> list[tuple[int, int]]:
    """The steps that do not build on the one before them."""
    return [(seq, base) for seq, base in cursor.execute(SQL["list_jumps"], (to_bytes(session), after))]


def newest_block(cursor: Cursor) -> int:
    """The newest block; -1 if the index is empty."""
    place = _one(cursor, "newest_place")
    return -1 if place is None else blocks.block_of(place)


def find_words(cursor: Cursor, first: str, last: str, among: Sequence[int]) -> list[tuple[int, bytes]]:
    """The rows of these words in these blocks."""
    return [(block, steps) for block, steps in cursor.execute(SQL["find_words"], (list(among), first, last))]


def index_steps(cursor: Cursor, steps: Sequence[Words]) -> bool:
    """Move steps into the index, inside a transaction; False, and then it must be rolled back, if one is not there."""
    cursor.execute(SQL["index_lock"])
    taken = cursor.execute(SQL["take_unindexed"], ([one.place for one in steps],)).fetchall()
    there = [(place, from_bytes(session), seq) for place, session, seq in taken]
    if there != [(one.place, one.session, one.seq) for one in steps]:
        return False
    rows = sorted(blocks.rows_of((one.place, one.words) for one in steps).items())
    columns = [block for (block, _), _ in rows], [word for (_, word), _ in rows], [stored for _, stored in rows]
    cursor.execute(SQL["add_words"], columns)
    return True


def remove_sessions(cursor: Cursor, sids: Sequence[int]) -> None:
    """Take sessions out of the index, before their rows are deleted."""
    cursor.execute(SQL["index_lock"])
    places = [place for (place,) in cursor.execute(SQL["indexed_places"], (list(sids),)).fetchall()]
    for block, going in blocks.by_block(places).items():
        first = blocks.place_of(block, 0)
        if _one(cursor, "count_places", first, first + blocks.BLOCK_STEPS) == len(going):
            cursor.execute(SQL["delete_block"], (block,))
            continue
        rows: dict[bytes, bytes] = dict(cursor.execute(SQL["words_of_block"], (block,)).fetchall())
        changed = blocks.without(rows, going)
        left = {word: steps for word, steps in changed.items() if steps is not None}
        cursor.execute(SQL["put_words"], (list(left), list(left.values()), block))
        cursor.execute(SQL["delete_words"], (block, [word for word, steps in changed.items() if steps is None]))


def _one(cursor: Cursor, name: str, *given: int) -> Any:
    row = cursor.execute(SQL[name], given).fetchone()
    return row[0] if row is not None else None
