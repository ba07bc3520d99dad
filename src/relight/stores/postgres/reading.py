"""Reading steps, checkpoints and labels.

Steps are read in batches, each a finished query: a reader that stops in the middle, or takes an hour over one step,
holds no connection and no transaction. Steps never change, so batches fit together.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from relight.errors import Corrupt, NotFound
from relight.ports.store import CheckpointRow
from relight.stores.postgres import snapshots
from relight.stores.postgres.connections import Connections, Cursor
from relight.stores.postgres.rows import ROWS, read_label, to_bytes, up_to
from relight.stores.postgres.sessions import find
from relight.stores.postgres.statements import SQL
from relight.values.step import Committed, Step

BATCH_ROWS: Final = 256
BATCH_BYTES: Final = 8 * 1024 * 1024
"""a batch ends at whichever limit comes first"""


def steps(connections: Connections, session: str, after: int, upto: int | None) -> Iterator[Step]:
    """The session's own steps with after < seq <= upto, in order."""
    sid, seq = None, max(after, 0)
    while True:
        with connections.reading(session) as cursor:
            sid = find_sid(cursor, session) if sid is None else sid
            batch = _batch(cursor, session, sid, seq, upto) if sid is not None else []
        yield from batch
        if not batch:
            return
        seq = batch[-1].seq


def _batch(cursor: Cursor, session: str, sid: int, after: int, upto: int | None) -> list[Step]:
    given = (sid, after, up_to(upto), BATCH_ROWS, BATCH_BYTES)
    return [ROWS.read_step(session, row) for row in cursor.execute(SQL["read_steps"], given).fetchall()]


def checkpoints(cursor: Cursor, session: str, after: int, upto: int | None) -> list[CheckpointRow]:
    """The same steps without bodies, each with its newest label and its snapshots."""
    sid = find_sid(cursor, session)
    if sid is None:
        return []
    rows = cursor.execute(SQL["read_labels"], (sid,)).fetchall()
    labels = dict(read_label(sid, session, row) for row in rows)
    taken = snapshots.of_session(cursor, sid)
    found = cursor.execute(SQL["read_checkpoints"], (sid, max(after, 0), up_to(upto))).fetchall()
    return list(ROWS.read_checkpoints(session, found, labels, taken))


def find_commit(cursor: Cursor, session: str, key: bytes, after: int) -> Committed | None:
    """The step committed under this key after seq `after`, with the present head."""
    record = find(cursor, session)
    if record is None:
        raise NotFound(session)
    if record.head is None:
        raise Corrupt("its head fails its seal", session=session)
    sid = find_sid(cursor, session)
    rows = cursor.execute(SQL["find_key"], (sid, max(after, 0))).fetchall()
    seqs = {own: seq for seq, own in reversed(rows)}
    if key in seqs:
        given = (sid, seqs[key] - 1, seqs[key], 1, BATCH_BYTES)
        row = cursor.execute(SQL["read_steps"], given).fetchone()
        if row is not None:
            return Committed(step=ROWS.read_step(session, row), head=record.head)
    # Absent is an answer only if all steps are there: the missing row may be the one that was asked for.
    if len(rows) < record.head.seq - max(after, record.identity.parent.seq if record.identity.parent else 0):
        raise Corrupt("a step is missing, so it is unknown what was committed", session=session)
    return None


def find_label(cursor: Cursor, session: str, label: str, upto: int | None) -> int | None:
    """The seq, up to `upto`, that a label was last given to; None only if no label of the session is damaged."""
    sid = find_sid(cursor, session)
    if sid is None:
        return None
    row = cursor.execute(SQL["find_label"], (sid, to_bytes(label), up_to(upto))).fetchone()
    if row is not None:
        return read_label(sid, session, row)[0]
    for other in cursor.execute(SQL["read_labels"], (sid,)).fetchall():
        read_label(sid, session, other)
    return None


def find_sid(cursor: Cursor, session: str) -> int | None:
    """A session's number in this store, or None."""
    row = cursor.execute(SQL["find_sid"], (to_bytes(session),)).fetchone()
    return None if row is None else int(row[0])
