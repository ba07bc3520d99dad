"""Creating, updating and finding sessions.

Everything that writes runs inside a transaction of the writer, so that checking whether a name is free and taking it
is atomic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import apsw

from relight.errors import Conflict, Corrupt, NotFound
from relight.ports.store import Record
from relight.stores.sqlite import queues
from relight.stores.sqlite.commits import Journal
from relight.stores.sqlite.connection.database import Database
from relight.stores.sqlite.connection.watermark import Watermark
from relight.stores.sqlite.health import trusted_record
from relight.stores.sqlite.rows import ROWS, ended_columns, read_text, session_row, to_text, update_row
from relight.stores.sqlite.statements import SQL
from relight.stores.stored_rows import Row
from relight.values.session import Head, Identity
from relight.values.snapshot import Snapshot
from relight.values.step import Step


def create(cursor: apsw.Cursor, journal: Journal, identity: Identity, head: Head) -> int:
    """Insert a session; returns its number. Conflict if the id or the name exists."""
    if cursor.execute(SQL["find_sid"], (to_text(identity.id),)).fetchone() is not None:
        raise Conflict(f"{identity.id}: the session exists")
    _check_name_free(cursor, identity)
    cursor.execute(SQL["insert_session"], session_row(identity, head))
    sid = cursor.connection.last_insert_rowid()
    journal.put_head(cursor, sid, head)
    queues.move(cursor, sid, None, head)
    _write_labels(cursor, sid, identity)
    return sid


def import_sessions(
    cursor: apsw.Cursor,
    journal: Journal,
    records: Sequence[Record],
    steps: Iterable[tuple[Step, Sequence[Snapshot]]],
    labels: Iterable[tuple[str, int, str]],
) -> list[tuple[int, int]]:
    """Insert whole sessions unchanged, or Conflict; returns (number, seq) to acknowledge."""
    sids: dict[str, int] = {}
    acknowledged: list[tuple[int, int]] = []
    for record in records:
        assert record.head is not None
        sids[record.identity.id] = sid = create(cursor, journal, record.identity, record.head)
        acknowledged.append((sid, record.head.seq))
    for step, snapshots in steps:
        journal.insert_imported(cursor, sids[step.session], step, snapshots)
    for session, seq, label in labels:
        journal.write_label(cursor, sids[session], seq, label)
    return acknowledged


def update(cursor: apsw.Cursor, session: str, change: Callable[[Identity], Identity]) -> Identity:
    """Change a session's identity; NotFound, or Conflict if the name is taken."""
    row = cursor.execute(SQL["find_by_id"], (to_text(session),)).fetchone()
    if row is None:
        raise NotFound(session)
    identity = change(ROWS.read_record(row).identity)
    _put_identity(cursor, row[0], identity)
    return identity


def _put_identity(cursor: apsw.Cursor, sid: int, identity: Identity) -> None:
    _check_name_free(cursor, identity)
    cursor.execute(SQL["update_session"], (*update_row(identity), sid))
    cursor.execute(SQL["delete_session_labels"], (sid,))
    _write_labels(cursor, sid, identity)


def rebuild(cursor: apsw.Cursor, journal: Journal, watermark: Watermark, head: Head, instead_of: bytes | None) -> int:
    """Replace a head that cannot be read, or that has the digest `instead_of`; else Conflict. Rewrites the columns
    too."""
    found = cursor.execute(SQL["find_by_id"], (to_text(head.session),)).fetchone()
    if found is None:
        raise NotFound(head.session)
    # Read again by its number: found by id, the id comes from the index, so a row whose own id is damaged would look
    # whole here and broken when it is found by name.
    row: Row = cursor.execute(SQL["session_by_sid"], (found[0],)).fetchone()  # type: ignore[assignment]
    record = trusted_record(cursor, watermark, row[0], ROWS.read_record(row))
    if record.head is not None and record.head.digest != instead_of:
        raise Conflict(f"{head.session}: its head is whole and is not replaced")
    journal.put_head(cursor, row[0], head)
    cursor.execute(SQL["delete_waiting"], (row[0],))
    queues.move(cursor, row[0], None, head)
    cursor.execute(SQL["set_status"], (head.status, *ended_columns(head), row[0]))
    _put_identity(cursor, row[0], record.identity)
    return int(row[0])


def _check_name_free(cursor: apsw.Cursor, identity: Identity) -> None:
    if identity.name is None:
        return
    row = cursor.execute(SQL["find_name_holder"], (to_text(identity.name),)).fetchone()
    if row is not None and (holder := read_text(row[1])) != identity.id:
        raise Conflict(f"{identity.name}: the name is taken by {holder}")


def _write_labels(cursor: apsw.Cursor, sid: int, identity: Identity) -> None:
    for k, v in ROWS.label_columns(identity):
        cursor.execute(SQL["insert_session_label"], (k, v, identity.created_us, sid))


def find(cursor: apsw.Cursor, database: Database, session: str) -> Record | None:
    """Find a session by its full id."""
    row = cursor.execute(SQL["find_by_id"], (to_text(session),)).fetchone()
    if row is None:
        database.misses.check(cursor)
        return None
    record = ROWS.read_record(row)
    if record.identity.id != session:
        raise Corrupt("its id leads to another session", session=session)
    return trusted_record(cursor, database.watermark, row[0], record)


def find_named(cursor: apsw.Cursor, database: Database, name: str) -> Record | None:
    """Find a session by its exact name."""
    row = cursor.execute(SQL["find_by_name"], (to_text(name),)).fetchone()
    if row is None:
        database.misses.check(cursor)
        return None
    record = ROWS.read_record(row)
    if record.identity.name != name:
        raise Corrupt(f"it is found under the name {name!r}, which is not its own", session=record.identity.id)
    return trusted_record(cursor, database.watermark, row[0], record)


def find_prefixed(cursor: apsw.Cursor, database: Database, prefix: str, limit: int) -> list[Record]:
    """Find sessions by a prefix of the id, ordered by id."""
    least = to_text(prefix)
    rows: list[Row] = cursor.execute(SQL["find_by_prefix"], (least, least + "\U0010ffff", limit)).fetchall()
    if not rows:
        database.misses.check(cursor)
    return [trusted_record(cursor, database.watermark, row[0], ROWS.read_record(row)) for row in rows]
