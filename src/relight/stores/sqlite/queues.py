"""Queues of sessions, and small records (policies, slots, workers): rows written in the caller's transaction.

Finding the first of a queue costs the same however many wait behind them.
"""

from __future__ import annotations

from collections.abc import Callable

import apsw

from relight.journal.queues.order import QueueRow, first_rows, format_queue_key, parse_queue_key, queue_row_of
from relight.journal.queues.slots import plan_slot, slot_wanted
from relight.journal.queues.small_records import RecordKind
from relight.stores.sqlite.rows import read_text, to_text
from relight.stores.sqlite.statements import SQL
from relight.stores.stored_rows import Row
from relight.values.lease import Instant
from relight.values.queues import QueueKey
from relight.values.session import Head
from relight.values.step import Draft

Holder = Callable[[apsw.Cursor, str], Head | None]


def move(cursor: apsw.Cursor, sid: int, before: Head | None, after: Head) -> None:
    """Insert, move or delete the queue position of a session whose head changed; nothing if it is unchanged."""
    row = queue_row_of(after)
    if before is not None and queue_row_of(before) == row:
        return
    if row is None:
        cursor.execute(SQL["delete_waiting"], (sid,))
        return
    values = (sid, format_queue_key(row.line), row.priority, row.since_us, to_text(row.session), row.wake_us)
    cursor.execute(SQL["put_waiting"], values)


def list_queues(cursor: apsw.Cursor) -> list[QueueKey]:
    """All queues that are not empty."""
    return sorted(parse_queue_key(read_text(key) or "") for (key,) in cursor.execute(SQL["lines"]).fetchall())


def list_first(cursor: apsw.Cursor, line: QueueKey, limit: int, now_us: int) -> list[QueueRow]:
    """The first of a queue that are due."""
    key = format_queue_key(line)
    ready = cursor.execute(SQL["first_ready"], (key, limit)).fetchall()
    woken = cursor.execute(SQL["first_woken"], (key, now_us, limit)).fetchall()
    rows: list[Row] = ready + woken
    return first_rows((QueueRow(line, row[0], row[1], read_text(row[2]) or "", row[3]) for row in rows), limit)


def find_position(cursor: apsw.Cursor, sid: int) -> QueueRow | None:
    """A session's queue position, as its row says."""
    row = cursor.execute(SQL["find_waiting"], (sid,)).fetchone()
    if row is None:
        return None
    key, priority, since_us, id_, wake_us = row
    return QueueRow(parse_queue_key(read_text(key) or ""), priority, since_us, read_text(id_) or "", wake_us)


def planned_slots(
    cursor: apsw.Cursor, head: Head, draft: Draft, now: Instant, holder: Holder
) -> tuple[str, str, bytes] | None:
    """The record of its queue's slots after this claim; None if the claim needs no slot. Or QueueFull."""
    queue = slot_wanted(head, draft)
    if queue is None:
        return None
    record = plan_slot(
        find_record(cursor, "queue", queue),
        lambda: find_record(cursor, "slots", queue),
        lambda session: holder(cursor, session),
        session=head.session,
        now=now,
    )
    return None if record is None else ("slots", to_text(queue), record)


def find_record(cursor: apsw.Cursor, kind: RecordKind, name: str) -> bytes | None:
    """One record by kind and name, or None."""
    row = cursor.execute(SQL["find_record"], (kind, to_text(name))).fetchone()
    return row[0] if row is not None else None


def list_records(cursor: apsw.Cursor, kind: RecordKind) -> dict[str, bytes]:
    """All records of a kind, by name."""
    rows: list[Row] = cursor.execute(SQL["read_records"], (kind,)).fetchall()
    return {read_text(name) or "": record for name, record in rows}


def put_record(cursor: apsw.Cursor, kind: RecordKind, name: str, record: bytes | None) -> None:
    """Write a record, or delete it if `record` is None."""
    if record is None:
        cursor.execute(SQL["delete_record"], (kind, to_text(name)))
    else:
        cursor.execute(SQL["put_record"], (kind, to_text(name), record))
