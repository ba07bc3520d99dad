"""Integrity checks: a bounded one when a lookup finds nothing, and the complete one of `relight verify`.

A lookup that finds nothing may be the truth or a damaged index, and "no such session" must not be reported in the
second case. So the first such lookup of an opened store checks the table and its indexes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

import apsw

from relight.errors import Corrupt
from relight.journal.queues.order import queue_row_of
from relight.ports.store import Damage, Record
from relight.stores.sqlite import queues, snapshots
from relight.stores.sqlite.connection.watermark import Watermark
from relight.stores.sqlite.rows import ROWS, ended_columns, read_label, read_text, sort_name
from relight.stores.sqlite.statements import SQL
from relight.stores.stored_rows import Row

MAX_SESSIONS: Final = 20_000
"""larger stores are checked by `relight verify` only: the check takes about 4 ms per thousand sessions"""
Table = Literal["sessions", "checkpoint_labels"]


class Misses:
    """Checks made when a lookup found nothing."""

    def __init__(self, watermark: Watermark) -> None:
        self._watermark = watermark
        self._checked: set[Table] = set()

    def check(self, cursor: apsw.Cursor, table: Table = "sessions") -> None:
        """Raise Corrupt if the table or one of its indexes is damaged, or sessions are lost."""
        self._check_sessions(cursor)
        if table in self._checked:
            return
        if (cursor.execute(SQL["last_sid"]).get or 0) <= MAX_SESSIONS:
            found = [text for (text,) in cursor.execute(SQL["integrity_of"].format(table=table))]
            if found != ["ok"]:
                raise Corrupt(f"the table {table} is damaged ({found[0]})")
        self._checked.add(table)

    def _check_sessions(self, cursor: apsw.Cursor) -> None:
        """Raise Corrupt if the watermark knows a session that the database never had."""
        acknowledged = self._watermark.sessions()
        if acknowledged > (cursor.execute(SQL["last_sid"]).get or 0):
            raise Corrupt("sessions are lost: the write-ahead log was damaged, or an older copy was restored")


def lost(session: str, acknowledged: int, seq: int) -> Corrupt:
    """The error for a session whose head is below its watermark."""
    return Corrupt(
        f"step {acknowledged} was acknowledged, and the journal ends at {seq}: "
        "the write-ahead log was damaged, or an older copy was restored",
        session=session,
    )


def trusted_record(cursor: apsw.Cursor, watermark: Watermark, sid: int, record: Record) -> Record:
    """The record, without its head if that is below the watermark: acknowledged steps are lost then."""
    if record.head is None or record.head.seq >= (seq := watermark.seq(sid)):
        return record
    # Read again: the session may have moved on between the read of its row and the read of the watermark.
    row = cursor.execute(SQL["session_by_sid"], (sid,)).fetchone()
    if row is None:
        return record
    again = ROWS.listed_record(row)
    behind = again.head is not None and again.head.seq < seq
    return Record(identity=again.identity, head=None) if behind else again


def examine(connection: apsw.Connection, watermark: Watermark, evidence: list[Path]) -> Iterator[Damage]:
    """The complete check: SQLite's own, every session's rows against its record, and rows without a session."""
    yield from (Damage(what=f"copy of a damaged write-ahead log: {path}") for path in evidence)
    if watermark.sessions() > (connection.execute(SQL["last_sid"]).get or 0):
        yield Damage(what="sessions are lost: the write-ahead log was damaged, or an older copy was restored")
    yield from (Damage(what=str(what)) for (what,) in connection.execute(SQL["integrity"]) if what != "ok")
    for (table,) in connection.execute(SQL["orphan_rows"]).fetchall():
        yield Damage(what=f"{table}: rows of a session that does not exist")
    for (status,) in connection.execute(SQL["miscounted"]).fetchall():
        yield Damage(what=f"status_counts: {read_text(status)} is counted wrong")
    for pool in snapshots.pools(connection.cursor()):
        yield from _examine_pool(connection, pool)
    for (sid,) in connection.execute(SQL["all_sids"]).fetchall():
        row = connection.execute(SQL["session_by_sid"], (sid,)).fetchone()
        if row is not None:
            yield from _examine_session(connection, watermark, row)


def _examine_session(connection: apsw.Connection, watermark: Watermark, row: Row) -> Iterator[Damage]:
    sid, session = row[0], read_text(row[1]) or "?"
    try:
        record = ROWS.read_record(row)
        for label in connection.execute(SQL["read_labels"], (sid,)).fetchall():
            read_label(sid, session, label)
        snapshots.of_session(connection.cursor(), sid)
    except Corrupt as error:
        yield Damage(what=error.message)
        return
    if record.head is None:
        yield Damage(what=f"{session}: its head cannot be read, or a column disagrees with it")
    elif trusted_record(connection.cursor(), watermark, sid, record).head is None:
        yield Damage(what=lost(session, watermark.seq(sid), record.head.seq).message)
    if _labels(record) != {tuple(label) for label in connection.execute(SQL["labels_by_sid"], (sid,))}:
        yield Damage(what=f"{session}: it is listed by labels it does not have")
    if record.head is not None:
        expected = (sort_name(record.identity.name, record.identity.id).encode(), *ended_columns(record.head))
        if connection.execute(SQL["order_columns"], (sid,)).fetchone() != expected:
            yield Damage(what=f"{session}: what a list orders it by does not match its head")
    if record.head is not None and queues.find_position(connection.cursor(), sid) != queue_row_of(record.head):
        yield Damage(what=f"{session}: its queue position does not match its head")


def _examine_pool(connection: apsw.Connection, pool: str) -> Iterator[Damage]:
    try:
        snapshots.segments(connection.cursor(), pool)
    except Corrupt as error:
        yield Damage(what=f"pool {pool}: {error.message}")


def _labels(record: Record) -> set[tuple[bytes, bytes, int]]:
    identity = record.identity
    return {(k.encode(), v.encode(), identity.created_us) for k, v in ROWS.label_columns(identity)}
