"""Lines of queued sessions, and the small records beside them: rows that are written inside somebody else's
transaction, and first places that cost the same however many stand behind them.

Whoever takes a slot of a queue locks the record of its slots, after the head of the session: so do all, and nobody
waits in a circle. The heads of those who hold a slot are read as they are.
"""

from __future__ import annotations

from relight.journal.queues.order import QueueRow, first_rows, format_queue_key, parse_queue_key, queue_row_of
from relight.journal.queues.slots import plan_slot, slot_wanted
from relight.journal.queues.small_records import RecordKind
from relight.stores.postgres.connections import Cursor
from relight.stores.postgres.rows import from_bytes, to_bytes, unsealed_head
from relight.stores.postgres.statements import SQL
from relight.values.lease import Instant
from relight.values.queues import QueueKey
from relight.values.session import Head
from relight.values.step import Draft


def move(cursor: Cursor, sid: int, before: Head | None, after: Head) -> None:
    """Into its line, out of it, or to another place; nothing where that stays as it was."""
    row = queue_row_of(after)
    if before is not None and queue_row_of(before) == row:
        return
    if row is None:
        if before is not None:
            cursor.execute(SQL["delete_waiting"], (sid,))
        return
    values = (sid, to_bytes(format_queue_key(row.line)), row.priority, row.since_us, to_bytes(row.session), row.wake_us)
    cursor.execute(SQL["put_waiting"], values)


def all_lines(cursor: Cursor) -> list[QueueKey]:
    """Those in which somebody stands."""
    return sorted(parse_queue_key(from_bytes(key)) for (key,) in cursor.execute(SQL["lines"]).fetchall())


def first(cursor: Cursor, line: QueueKey, limit: int, now_us: int | None) -> list[QueueRow]:
    """The first of a line whose time has come, by the server's time or by this one."""
    given = {"line": to_bytes(format_queue_key(line)), "now_us": now_us, "limit": max(limit, 0)}
    rows = cursor.execute(SQL["first_waiting"], given).fetchall()
    return first_rows((QueueRow(line, row[0], row[1], from_bytes(row[2]), row[3]) for row in rows), limit)


def found(cursor: Cursor, sid: int) -> QueueRow | None:
    """Where a session stands, by the row of its line."""
    row = cursor.execute(SQL["find_waiting"], (sid,)).fetchone()
    if row is None:
        return None
    key, priority, since_us, id_, wake_us = row
    return QueueRow(parse_queue_key(from_bytes(key)), priority, since_us, from_bytes(id_), wake_us)


def planned_slots(cursor: Cursor, head: Head, draft: Draft, now: Instant) -> tuple[str, bytes, bytes] | None:
    """The row of the slots of its queue after this claim, locked; None where it takes none. Or QueueFull."""
    queue = slot_wanted(head, draft)
    if queue is None:
        return None
    name = to_bytes(queue)

    def locked_slots() -> bytes | None:
        cursor.execute(SQL["begin_kept"], ("slots", name))
        row = cursor.execute(SQL["lock_kept"], ("slots", name)).fetchone()
        return row[0] if row is not None else None

    def holder(session: str) -> Head | None:
        row = cursor.execute(SQL["read_head"], (to_bytes(session),)).fetchone()
        return unsealed_head(row[0]) if row is not None else None

    found = cursor.execute(SQL["find_kept"], ("queue", name)).fetchone()
    record = plan_slot(found[0] if found is not None else None, locked_slots, holder, session=head.session, now=now)
    return None if record is None else ("slots", name, record)


def list_records(cursor: Cursor, kind: RecordKind) -> dict[str, bytes]:
    """All of a kind, by name; one that was only begun is not there yet."""
    rows = cursor.execute(SQL["read_kept"], (kind,)).fetchall()
    return {from_bytes(name): record for name, record in rows if record}


def locked_kept(cursor: Cursor, kind: RecordKind, name: str) -> bytes | None:
    """One small record, which nobody else changes before this transaction ends; None where there is none."""
    cursor.execute(SQL["begin_kept"], (kind, to_bytes(name)))
    row = cursor.execute(SQL["lock_kept"], (kind, to_bytes(name))).fetchone()
    return row[0] if row is not None and row[0] else None


def put_record(cursor: Cursor, kind: RecordKind, name: str, record: bytes | None) -> None:
    """Write one, or remove it."""
    if record is None:
        cursor.execute(SQL["delete_kept"], (kind, to_bytes(name)))
    else:
        cursor.execute(SQL["put_kept"], (kind, to_bytes(name), record))
