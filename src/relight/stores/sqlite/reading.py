"""Reading steps, checkpoints and labels.

Steps are read in batches, each a finished query: a reader that stops in the middle, or takes an hour over one step,
holds no transaction open. Steps never change, so batches fit together.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, cast

import apsw

from relight.errors import Corrupt, NotFound
from relight.ports.store import CheckpointRow
from relight.stores.sqlite import snapshots
from relight.stores.sqlite.connection.database import Database
from relight.stores.sqlite.connection.readers import Readers
from relight.stores.sqlite.rows import ROWS, id_range, read_label, to_text
from relight.stores.sqlite.sessions import find
from relight.stores.sqlite.statements import SQL
from relight.stores.stored_rows import damaged_step
from relight.values.step import Committed, Step

BATCH_ROWS: Final = 256
BATCH_BYTES: Final = 8 * 1024 * 1024
"""a batch ends at whichever limit comes first"""


def steps(readers: Readers, session: str, after: int, upto: int | None) -> Iterator[Step]:
    """The session's own steps with after < seq <= upto, in order."""
    sid, seq = None, max(after, 0)
    while True:
        try:
            with readers.reading(session) as cursor:
                sid = find_sid(cursor, session) if sid is None else sid
                batch = _batch(cursor, session, sid, seq, upto) if sid is not None else []
        except Corrupt as error:
            raise Corrupt(error.what, session=session, seq=seq + 1) from None
        yield from batch
        if not batch:
            return
        seq = batch[-1].seq


def _batch(cursor: apsw.Cursor, session: str, sid: int, after: int, upto: int | None) -> list[Step]:
    batch: list[Step] = []
    size, last, read_step = 0, after, ROWS.read_step
    try:
        for row in cursor.execute(SQL["read_steps"], id_range(sid, after, upto)):
            step = read_step(session, row)
            if step.seq <= last:
                raise Corrupt("the rows of its steps are out of order", session=session, seq=last + 1)
            last = step.seq
            batch.append(step)
            size += len(step.body)
            if size >= BATCH_BYTES or len(batch) >= BATCH_ROWS:
                break
    # A flipped byte has turned a number into text, and the driver cannot decode the row. A stand-in that fails its
    # digest takes its position, so that the damage gets a seq and the steps behind it are still read.
    except UnicodeDecodeError:
        row = cursor.execute(SQL["next_seq"], id_range(sid, last, upto)).fetchone()
        batch.append(damaged_step(session, max(row[0] if row else 0, last + 1)))
    cursor.close()  # half read: end its transaction
    return batch


def checkpoints(cursor: apsw.Cursor, session: str, after: int, upto: int | None) -> list[CheckpointRow]:
    """The same steps without bodies, each with its newest label and its snapshots."""
    sid = find_sid(cursor, session)
    if sid is None:
        return []
    labels = dict(read_label(sid, session, row) for row in cursor.execute(SQL["read_labels"], (sid,)))
    taken = snapshots.of_session(cursor, sid)
    rows = cursor.execute(SQL["read_checkpoints"], id_range(sid, after, upto))
    return list(ROWS.read_checkpoints(session, rows, labels, taken))


def find_commit(cursor: apsw.Cursor, database: Database, session: str, key: bytes, after: int) -> Committed | None:
    """The step committed under this key after seq `after`, with the present head."""
    record = find(cursor, database, session)
    if record is None:
        raise NotFound(session)
    if record.head is None:
        raise Corrupt("its head fails its seal", session=session)
    sid = find_sid(cursor, session)
    assert sid is not None
    found = cursor.execute(SQL["find_key"], id_range(sid, after)).fetchall()
    seqs = {own: cast(int, seq) for seq, own in reversed(found)}
    if key in seqs:
        row = cursor.execute(SQL["read_steps"], id_range(sid, seqs[key] - 1, seqs[key])).fetchone()
        if row is not None:
            return Committed(step=ROWS.read_step(session, row), head=record.head)
    # Absent is an answer only if all steps are there: the missing row may be the one that was asked for.
    if len(seqs) < record.head.seq - max(after, record.identity.parent.seq if record.identity.parent else 0):
        raise Corrupt("a step is missing, so it is unknown what was committed", session=session)
    return None


def find_label(cursor: apsw.Cursor, database: Database, session: str, label: str, upto: int | None) -> int | None:
    """The seq, up to `upto`, that a label was last given to; None only if no label of the session is damaged."""
    sid = find_sid(cursor, session)
    if sid is None:
        return None
    row = cursor.execute(SQL["find_label"], (sid, to_text(label), upto)).fetchone()
    if row is not None:
        return read_label(sid, session, row)[0]
    for other in cursor.execute(SQL["read_labels"], (sid,)):
        read_label(sid, session, other)
    database.misses.check(cursor, "checkpoint_labels")
    return None


def find_sid(cursor: apsw.Cursor, session: str) -> int | None:
    """A session's number inside the file, or None."""
    row = cursor.execute(SQL["find_sid"], (to_text(session),)).fetchone()
    return None if row is None else int(row[0])
