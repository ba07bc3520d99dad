"""The complete integrity check, on one snapshot of the database, while others keep writing.

The server checks its own pages if it was initialised with checksums. This checks what it cannot know: every row of
every session against its sealed record, every seal, and rows without a session. The digest chain is checked by
`history.verify`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from relight.errors import Corrupt
from relight.journal.queues.order import queue_row_of
from relight.ports.store import Damage, Record
from relight.stores.postgres import queues, snapshots
from relight.stores.postgres.connections import Cursor
from relight.stores.postgres.rows import ROWS, from_bytes, read_label, to_bytes
from relight.stores.postgres.statements import SQL
from relight.stores.stored_rows import Row

PAGE: Final = 500
"""sessions per query"""


def examine(cursor: Cursor) -> Iterator[Damage]:
    """All damage found, inside a transaction that sees one snapshot."""
    for (table,) in cursor.execute(SQL["orphan_rows"]).fetchall():
        yield Damage(what=f"{table}: rows of a session that does not exist")
    for pool in sorted(snapshots.pools(cursor)):
        yield from _examine_pool(cursor, pool)
    last = 0
    while rows := cursor.execute(SQL["sessions_after"], (last, PAGE)).fetchall():
        last = rows[-1][0]
        for row in rows:
            yield from _examine_session(cursor, row)


def _examine_session(cursor: Cursor, row: Row) -> Iterator[Damage]:
    sid, session = row[0], from_bytes(row[1])
    try:
        record = ROWS.read_record(row)
        for label in cursor.execute(SQL["read_labels"], (sid,)).fetchall():
            read_label(sid, session, label)
        snapshots.of_session(cursor, sid)
    except Corrupt as error:
        yield Damage(what=error.message)
        return
    if record.head is None:
        yield Damage(what=f"{session}: its head cannot be read, or a column disagrees with it")
    if _labels(record) != set(cursor.execute(SQL["labels_by_sid"], (sid,)).fetchall()):
        yield Damage(what=f"{session}: it is listed by labels it does not have")
    if record.head is not None and queues.find_position(cursor, sid) != queue_row_of(record.head):
        yield Damage(what=f"{session}: its queue position does not match its head")


def _examine_pool(cursor: Cursor, pool: str) -> Iterator[Damage]:
    try:
        snapshots.segments(cursor, pool)
        snapshots.of_pool(cursor, pool)
    except Corrupt as error:
        yield Damage(what=f"pool {pool}: {error.message}")


def _labels(record: Record) -> set[tuple[bytes, bytes, int, bytes]]:
    identity = record.identity
    return {(k, v, identity.created_us, to_bytes(identity.id)) for k, v in ROWS.label_columns(identity)}
