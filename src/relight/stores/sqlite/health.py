"""Is the file what was written? A small check where a doubt arises, and the complete one when somebody asks.

A look-up that finds nothing may be the truth or a damaged index, and "no such session" must not be said in the second
case. So the first such look-up of an opened store checks the table and its indexes, within a bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

import apsw

from relight.errors import Corrupt
from relight.journal.queues.order import waiting_of
from relight.ports.store import Damage, Record
from relight.stores.sqlite import queues, snapshots
from relight.stores.sqlite.rows import Row, label_columns, listed_record, read_label, read_record, read_text
from relight.stores.sqlite.statements import SQL
from relight.stores.sqlite.watermark import Watermark

MAX_SESSIONS: Final = 20_000
"""a store with more is checked by `relight verify` only: this check takes some 4 ms for a thousand"""
Table = Literal["sessions", "checkpoint_labels"]


class Misses:
    """Look-ups that found nothing."""

    def __init__(self, told: Watermark) -> None:
        self._told = told
        self._checked: set[Table] = set()

    def check(self, cursor: apsw.Cursor, table: Table = "sessions") -> None:
        """Raise Corrupt where the table or one of its indexes is damaged, or sessions are lost."""
        self._check_told(cursor)
        if table in self._checked:
            return
        if (cursor.execute(SQL["last_sid"]).get or 0) <= MAX_SESSIONS:
            found = [text for (text,) in cursor.execute(SQL["integrity_of"].format(table=table))]
            if found != ["ok"]:
                raise Corrupt(f"the table {table} is damaged ({found[0]})")
        self._checked.add(table)

    def _check_told(self, cursor: apsw.Cursor) -> None:
        """Sessions that were told to exist, and that the database has never heard of."""
        told = self._told.sessions()
        if told > (cursor.execute(SQL["last_sid"]).get or 0):
            raise Corrupt("sessions are lost: the write-ahead log was damaged, or an older copy was put back")


def lost(session: str, told: int, seq: int) -> Corrupt:
    """Steps that were acknowledged are not there any more."""
    return Corrupt(
        f"step {told} was acknowledged, and the journal ends at {seq}: "
        "the write-ahead log was damaged, or an older copy was put back",
        session=session,
    )


def believed(cursor: apsw.Cursor, told: Watermark, sid: int, record: Record) -> Record:
    """The record, with its head only if it stands where somebody was told it stands."""
    if record.head is None or record.head.seq >= (seq := told.seq(sid)):
        return record
    row = cursor.execute(SQL["session_by_sid"], (sid,)).fetchone()  # it may have moved on since it was read
    if row is None:
        return record
    again = listed_record(row)
    behind = again.head is not None and again.head.seq < seq
    return Record(identity=again.identity, head=None) if behind else again


def examine(connection: apsw.Connection, told: Watermark, evidence: list[Path]) -> Iterator[Damage]:
    """Everything: SQLite's own check, every row of every session against its record, and rows of no session."""
    yield from (Damage(what=f"a damaged write-ahead log was kept: {path}") for path in evidence)
    if told.sessions() > (connection.execute(SQL["last_sid"]).get or 0):
        yield Damage(what="sessions are lost: the write-ahead log was damaged, or an older copy was put back")
    yield from (Damage(what=str(what)) for (what,) in connection.execute(SQL["integrity"]) if what != "ok")
    for (table,) in connection.execute(SQL["homeless"]).fetchall():
        yield Damage(what=f"{table}: rows of a session that does not exist")
    for (status,) in connection.execute(SQL["miscounted"]).fetchall():
        yield Damage(what=f"status_counts: {read_text(status)} is counted wrong")
    for pool in snapshots.pools(connection.cursor()):
        yield from _examine_pool(connection, pool)
    for (sid,) in connection.execute(SQL["all_sids"]).fetchall():
        row = connection.execute(SQL["session_by_sid"], (sid,)).fetchone()
        if row is not None:
            yield from _examine_session(connection, told, row)


def _examine_session(connection: apsw.Connection, told: Watermark, row: Row) -> Iterator[Damage]:
    sid, session = row[0], read_text(row[1]) or "?"
    try:
        record = read_record(row)
        for label in connection.execute(SQL["read_labels"], (sid,)).fetchall():
            read_label(sid, session, label)
        snapshots.of_session(connection.cursor(), sid)
    except Corrupt as error:
        yield Damage(what=error.message)
        return
    if record.head is None:
        yield Damage(what=f"{session}: its head cannot be read, or a column disagrees with it")
    elif believed(connection.cursor(), told, sid, record).head is None:
        yield Damage(what=lost(session, told.seq(sid), record.head.seq).message)
    if _labels(record) != {tuple(label) for label in connection.execute(SQL["labels_by_sid"], (sid,))}:
        yield Damage(what=f"{session}: it is listed by labels it does not have")
    if record.head is not None and queues.found(connection.cursor(), sid) != waiting_of(record.head):
        yield Damage(what=f"{session}: it does not stand in line where its head says")


def _examine_pool(connection: apsw.Connection, pool: str) -> Iterator[Damage]:
    try:
        snapshots.segments(connection.cursor(), pool)
    except Corrupt as error:
        yield Damage(what=f"pool {pool}: {error.message}")


def _labels(record: Record) -> set[tuple[bytes, bytes, int]]:
    identity = record.identity
    return {(k.encode(), v.encode(), identity.created_us) for k, v in label_columns(identity)}
