"""The index of words in the same file (`ports/search.py`). Bodies are numbered in the order of commits, and each
names its step: one newer than the index is unindexed, and is read by a search as it is. A commit writes nothing else.

Steps are added in a transaction that compares them with those that were read, so that a session that was removed
meanwhile leaves no word. A removal takes a session out of its blocks in its own transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import apsw
import msgspec

from relight.journal.search import blocks
from relight.ports.search import StoredText, Words
from relight.stores.sqlite.reading import find_sid
from relight.stores.sqlite.rows import id_range, read_text
from relight.stores.sqlite.statements import SQL
from relight.stores.stored_rows import Row

BATCH_BYTES: Final = 4 * 1024 * 1024
"""of bodies that are read at once, beyond the first"""
MAX_COUNTED: Final = 4096
"""unindexed steps that are counted one by one"""
_json: Final = msgspec.json.Encoder()


def _upto(cursor: apsw.Cursor) -> int:
    """The last body in the index."""
    return int(cursor.execute(SQL["search_progress"]).get or 0)


def count_unindexed(cursor: apsw.Cursor) -> int:
    """How many steps are not in the index; beyond `MAX_COUNTED` those of removed sessions may be among them."""
    upto = _upto(cursor)
    counted = int(cursor.execute(SQL["count_unindexed"], (upto, MAX_COUNTED + 1)).get)
    return counted if counted <= MAX_COUNTED else int(cursor.execute(SQL["last_body"]).get) - upto


def list_unindexed(cursor: apsw.Cursor, limit: int, *, newest: bool) -> list[StoredText]:
    """Steps that are not in the index, in the order of their commits or the newest first."""
    found, size = [], 0
    for row in cursor.execute(SQL["newest_unindexed" if newest else "unindexed"], (_upto(cursor), limit)):
        found.append(_read(row))
        size += len(found[-1].body)
        if size >= BATCH_BYTES:
            break
    cursor.close()  # half read: end its transaction
    return found


def read_places(cursor: apsw.Cursor, places: Sequence[int]) -> list[StoredText]:
    """The steps at these places."""
    return [_read(row) for row in cursor.execute(SQL["texts_at"], (_json.encode(places).decode(),))]


def _read(row: Row) -> StoredText:
    place, session, seq, kind, at_us, label, body = row
    return StoredText(
        place=place,
        session=read_text(session) or "",
        seq=seq,
        kind=read_text(kind) or "",
        at_us=at_us,
        label=read_text(label),
        body=body or b"",
    )


def list_jumps(cursor: apsw.Cursor, session: str, after: int) -> list[tuple[int, int]]:
    """The steps that do not build on the one before them."""
    sid = find_sid(cursor, session)
    rows = cursor.execute(SQL["list_jumps"], id_range(sid, after)).fetchall() if sid is not None else []
    return [(seq, base) for seq, base in rows if type(seq) is int and type(base) is int]


def newest_block(cursor: apsw.Cursor) -> int:
    """The newest block; -1 if the index is empty."""
    upto = _upto(cursor)
    return blocks.block_of(upto) if upto else -1


def find_words(cursor: apsw.Cursor, first: str, last: str, among: Sequence[int]) -> list[tuple[int, bytes]]:
    """The rows of these words in these blocks."""
    rows = cursor.execute(SQL["find_words"], (_json.encode(list(among)).decode(), first, last)).fetchall()
    return [(block, steps) for block, steps in rows if type(block) is int and type(steps) is bytes]


def index_steps(cursor: apsw.Cursor, steps: Sequence[Words]) -> bool:
    """Add steps to the index, inside a transaction. False if the file does not have exactly these next."""
    last = steps[-1].place
    there = [
        (place, read_text(session), seq)
        for place, session, seq in cursor.execute(SQL["steps_between"], (_upto(cursor), last)).fetchall()
    ]
    if there != [(one.place, one.session, one.seq) for one in steps]:
        return False
    rows = blocks.rows_of((one.place, one.words) for one in steps)
    cursor.executemany(SQL["add_word"], ((*key, rows[key]) for key in sorted(rows)))
    cursor.execute(SQL["set_search_progress"], (last,))
    return True


def remove_sessions(cursor: apsw.Cursor, sids: Iterable[int]) -> None:
    """Take sessions out of the index, before their steps are deleted."""
    upto = _upto(cursor)
    places: list[Any] = [
        place
        for sid in sids
        for (place,) in cursor.execute(SQL["bodies_of_session"], (*id_range(sid), upto)).fetchall()
    ]
    for block, going in blocks.by_block(places).items():
        first = blocks.place_of(block, 0)
        if cursor.execute(SQL["count_bodies"], (first, first + blocks.BLOCK_STEPS)).get == len(going):
            cursor.execute(SQL["delete_block"], (block,))
            continue
        rows: list[Any] = cursor.execute(SQL["words_of_block"], (block,)).fetchall()
        for word, left in blocks.without(dict(rows), going).items():
            if left is None:
                cursor.execute(SQL["delete_word"], (block, word))
            else:
                cursor.execute(SQL["put_word"], (block, word, left))
