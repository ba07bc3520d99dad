"""Creating, updating and finding sessions.

The unique index of names decides whether a name is free. It is queried first only to report who has the name; of two
transactions that both find it free, the server lets one through.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from psycopg import errors

from relight.errors import Conflict, Corrupt, NotFound
from relight.journal.chain import seal
from relight.ports.store import Record, Seen
from relight.stores.postgres import queues, snapshots
from relight.stores.postgres.connections import Cursor
from relight.stores.postgres.rows import ROWS, from_bytes, step_columns, to_bytes
from relight.stores.postgres.statements import SQL
from relight.stores.stored_rows import label_seal
from relight.values.session import Head, Identity
from relight.values.snapshot import Snapshot
from relight.values.step import Step


def create(cursor: Cursor, identity: Identity, head: Head) -> int:
    """Insert a session; returns its number. Conflict if the id or the name exists."""
    id_ = to_bytes(identity.id)
    if cursor.execute(SQL["find_sid"], (id_,)).fetchone() is not None:
        raise Conflict(f"{identity.id}: the session exists")
    for parent in {identity.parent.session if identity.parent is not None else None, identity.spawned_by} - {None}:
        cursor.execute(SQL["lock_parent"], (ROWS.optional(parent),))
    with _name_conflicts(cursor, identity):
        row = cursor.execute(SQL["insert_session"], ROWS.session_row(identity, head)).fetchone()
    assert row is not None
    sid = int(row[0])
    cursor.execute(SQL["insert_head"], (sid, seal(head)))
    queues.move(cursor, sid, None, head)
    _write_labels(cursor, sid, identity)
    return sid


def import_sessions(
    cursor: Cursor,
    records: Sequence[Record],
    steps: Iterable[tuple[Step, Sequence[Snapshot]]],
    labels: Iterable[tuple[str, int, str]],
) -> None:
    """Insert whole sessions unchanged, or Conflict."""
    sids: dict[str, int] = {}
    for record in records:
        assert record.head is not None
        sids[record.identity.id] = create(cursor, record.identity, record.head)
    for step, taken in steps:
        sid = sids[step.session]
        snapshots.lock_segments(cursor, step.session, taken)
        cursor.execute(SQL["insert_step"], step_columns(sid, step))
        for row in snapshots.rows_of(sid, step.seq, taken):
            cursor.execute(SQL["insert_snapshot"], row)
    for session, seq, label in labels:
        insert_label(cursor, sids[session], seq, label)


def update(cursor: Cursor, session: str, change: Callable[[Identity], Identity]) -> Identity:
    """Change a session's identity; NotFound, or Conflict if the name is taken."""
    cursor.execute(SQL["lock_identity"], (to_bytes(session),))  # first: what is read after it is what is replaced
    row = cursor.execute(SQL["find_by_id"], (to_bytes(session),)).fetchone()
    if row is None:
        raise NotFound(session)
    identity = change(ROWS.read_record(row).identity)
    _put_identity(cursor, row[0], identity)
    return identity


def _put_identity(cursor: Cursor, sid: int, identity: Identity) -> None:
    with _name_conflicts(cursor, identity):
        cursor.execute(SQL["update_session"], (*ROWS.update_row(identity), sid))
    cursor.execute(SQL["delete_session_labels"], (sid,))
    _write_labels(cursor, sid, identity)


def rebuild(cursor: Cursor, head: Head, instead_of: bytes | None) -> None:
    """Replace a head that cannot be read, or that has the digest `instead_of`; else Conflict. Rewrites the columns
    too."""
    cursor.execute(SQL["lock_head"], (to_bytes(head.session),))
    row = cursor.execute(SQL["find_by_id"], (to_bytes(head.session),)).fetchone()
    if row is None:
        raise NotFound(head.session)
    record = ROWS.read_record(row)
    if record.head is not None and record.head.digest != instead_of:
        raise Conflict(f"{head.session}: its head is whole and is not replaced")
    cursor.execute(SQL["put_head"], (row[0], seal(head)))
    cursor.execute(SQL["delete_waiting"], (row[0],))
    queues.move(cursor, row[0], None, head)
    cursor.execute(SQL["set_status"], (head.status, row[0], head.status))
    _put_identity(cursor, lock_sid(cursor, head.session), record.identity)


def insert_label(cursor: Cursor, sid: int, seq: int, label: str) -> None:
    """Give a checkpoint a label."""
    stored = to_bytes(label)
    cursor.execute(SQL["insert_label"], (sid, seq, stored, label_seal(sid, seq, stored)))


def lock_sid(cursor: Cursor, session: str) -> int:
    """A session's number, locked against deletion until this transaction ends; or NotFound."""
    row = cursor.execute(SQL["lock_sid"], (to_bytes(session),)).fetchone()
    if row is None:
        raise NotFound(session)
    return int(row[0])


def check_as_seen(cursor: Cursor, session: str, seen: Seen) -> None:
    """Conflict if the session was written to or forked since; locks both out until this transaction ends."""
    id_ = to_bytes(session)
    cursor.execute(SQL["lock_head"], (id_,))
    cursor.execute(SQL["lock_sessions"], ([id_],))
    row = cursor.execute(SQL["find_by_id"], (id_,)).fetchone()
    record = ROWS.read_record(row) if row is not None else None
    if record is None:
        raise NotFound(session)
    forks = frozenset(from_bytes(fork) for fork, _ in cursor.execute(SQL["find_forks"], ([id_], [id_])).fetchall())
    if record.head is None:
        raise Corrupt("its head fails its seal", session=session)
    if (record.head.seq, forks) != (seen.seq, seen.forks):
        raise Conflict(f"{session}: it was written to or forked meanwhile")


@contextmanager
def _name_conflicts(cursor: Cursor, identity: Identity) -> Iterator[None]:
    """Translate violations of the unique indexes on name and id to Conflict."""
    if identity.name is not None:
        row = cursor.execute(SQL["find_name_holder"], (to_bytes(identity.name),)).fetchone()
        if row is not None and (holder := from_bytes(row[0])) != identity.id:
            raise Conflict(f"{identity.name}: the name is taken by {holder}")
    try:
        yield
    except errors.UniqueViolation as error:
        if error.diag.constraint_name == "sessions_name":
            raise Conflict(f"{identity.name}: the name was taken just now") from None
        if error.diag.constraint_name == "sessions_id":
            raise Conflict(f"{identity.id}: the session exists") from None
        raise


def _write_labels(cursor: Cursor, sid: int, identity: Identity) -> None:
    id_ = to_bytes(identity.id)
    for k, v in ROWS.label_columns(identity):
        cursor.execute(SQL["insert_session_label"], (k, v, identity.created_us, id_, sid))


def find(cursor: Cursor, session: str) -> Record | None:
    """Find a session by its full id."""
    row = cursor.execute(SQL["find_by_id"], (to_bytes(session),)).fetchone()
    if row is None:
        return None
    record = ROWS.read_record(row)
    if record.identity.id != session:
        raise Corrupt("its id leads to another session", session=session)
    return record


def find_named(cursor: Cursor, name: str) -> Record | None:
    """Find a session by its exact name."""
    row = cursor.execute(SQL["find_by_name"], (to_bytes(name),)).fetchone()
    if row is None:
        return None
    record = ROWS.read_record(row)
    if record.identity.name != name:
        raise Corrupt(f"it is found under the name {name!r}, which is not its own", session=record.identity.id)
    return record


def find_prefixed(cursor: Cursor, prefix: str, limit: int) -> list[Record]:
    """Find sessions by a prefix of the id, ordered by id."""
    least = to_bytes(prefix)
    given = (least, least + b"\xff", max(limit, 0))
    return [ROWS.read_record(row) for row in cursor.execute(SQL["find_by_prefix"], given).fetchall()]
