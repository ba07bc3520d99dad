"""Queues of sessions, and small records (policies, slots, workers): rows written in the caller's transaction.

Finding the first of a queue costs the same however many wait behind them. A claim that takes a slot locks the record of
its queue's slots after the head of its session; every transaction takes them in this order, so there is no deadlock.
"""

from __future__ import annotations

from relight.journal.queues.order import QueueRow, first_rows, format_queue_key, parse_queue_key, queue_row_of
from relight.journal.queues.slots import plan_slot, slot_wanted
from relight.journal.queues.small_records import RecordKind
from relight.stores.postgres.connections import Cursor
from relight.stores.postgres.rows import from_bytes, to_bytes
from relight.stores.postgres.statements import SQL
from relight.stores.stored_rows import unsealed_head
from relight.values.lease import Instant
from relight.values.queues import QueueKey
from relight.values.session import Head
from relight.values.step import Draft


def move(cursor: Cursor, sid: int, before: Head | None, after: Head) -> None:
    """Insert, move or delete the queue position of a session whose head changed; nothing if it is unchanged."""
    row = queue_row_of(after)
    if before is not None and queue_row_of(before) == row:
        return
    if row is None:
        if before is not None:
            cursor.execute(SQL["delete_waiting"], (sid,))
        return
    values = (sid, to_bytes(format_queue_key(row.line)), row.priority, row.since_us, to_bytes(row.session), row.wake_us)
    cursor.execute(SQL["put_waiting"], values)


def list_queues(cursor: Cursor) -> list[QueueKey]:
    """All queues that are not empty."""
    return sorted(parse_queue_key(from_bytes(key)) for (key,) in cursor.execute(SQL["lines"]).fetchall())


def list_first(cursor: Cursor, line: QueueKey, limit: int, now_us: int | None) -> list[QueueRow]:
    """The first of a queue that are due, by the server's time or by `now_us`."""
    given = {"line": to_bytes(format_queue_key(line)), "now_us": now_us, "limit": max(limit, 0)}
    rows = cursor.execute(SQL["first_waiting"], given).fetchall()
    return first_rows((QueueRow(line, row[0], row[1], from_bytes(row[2]), row[3]) for row in rows), limit)


def find_position(cursor: Cursor, sid: int) -> QueueRow | None:
    """A session's queue position, as its row says."""
    row = cursor.execute(SQL["find_waiting"], (sid,)).fetchone()
    if row is None:
        return None
    key, priority, since_us, id_, wake_us = row
    return QueueRow(parse_queue_key(from_bytes(key)), priority, since_us, from_bytes(id_), wake_us)


def planned_slots(cursor: Cursor, head: Head, draft: Draft, now: Instant) -> tuple[str, bytes, bytes] | None:
    """The record of its queue's slots after this claim, locked; None if the claim needs no slot. Or QueueFull."""
    queue = slot_wanted(head, draft)
    if queue is None:
        return None
    name = to_bytes(queue)

    def locked_slots() -> bytes | None:
        cursor.execute(SQL["reserve_record"], ("slots", name))
        row = cursor.execute(SQL["lock_record"], ("slots", name)).fetchone()
        return row[0] if row is not None else None

    def holder(session: str) -> Head | None:
        row = cursor.execute(SQL["read_head"], (to_bytes(session),)).fetchone()
        return unsealed_head(row[0]) if row is not None else None

    found = cursor.execute(SQL["find_record"], ("queue", name)).fetchone()
    record = plan_slot(found[0] if found is not None else None, locked_slots, holder, session=head.session, now=now)
    return None if record is None else ("slots", name, record)


def list_records(cursor: Cursor, kind: RecordKind) -> dict[str, bytes]:
    """All records of a kind, by name; reserved rows that are still empty are left out."""
    rows = cursor.execute(SQL["read_records"], (kind,)).fetchall()
    return {from_bytes(name): record for name, record in rows if record}


def lock_record(cursor: Cursor, kind: RecordKind, name: str) -> bytes | None:
    """One record or None, locked until this transaction ends, whether it exists or not."""
    cursor.execute(SQL["reserve_record"], (kind, to_bytes(name)))
    row = cursor.execute(SQL["lock_record"], (kind, to_bytes(name))).fetchone()
    return row[0] if row is not None and row[0] else None


def put_record(cursor: Cursor, kind: RecordKind, name: str, record: bytes | None) -> None:
    """Write a record, or delete it if `record` is None."""
    if record is None:
        cursor.execute(SQL["delete_record"], (kind, to_bytes(name)))
    else:
        cursor.execute(SQL["put_record"], (kind, to_bytes(name), record))
