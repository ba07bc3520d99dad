"""Which step references which workspace snapshot, and which segments of a pool exist.

A step that references a snapshot checks the rows of its segments inside its own transaction, and a sweep deletes the
row before the file. So a writer that was paused in between cannot commit a snapshot that was swept.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import apsw

from relight.errors import Corrupt, SnapshotSwept
from relight.stores.sqlite.rows import from_text, read_text, to_text
from relight.stores.sqlite.statements import SQL
from relight.stores.stored_rows import Row, row_seal
from relight.values.snapshot import Snapshot


def rows_of(sid: int, seq: int, snapshots: Sequence[Snapshot]) -> list[Row]:
    """Bindings of `insert_snapshot`, one row per snapshot."""
    columns = ((sid, seq, to_text(one.root), to_text(one.pool), to_text(one.id)) for one in snapshots)
    return [(*row, row_seal("snapshot", *row)) for row in columns]


def check_segments(cursor: apsw.Cursor, session: str, snapshots: Sequence[Snapshot]) -> None:
    """SnapshotSwept if a segment of one of them has lost its row."""
    for one in snapshots:
        for segment in one.segments:
            if cursor.execute(SQL["has_segment"], (to_text(one.pool), to_text(segment))).fetchone() is None:
                raise SnapshotSwept(session, one.pool)


def of_session(cursor: apsw.Cursor, sid: int) -> dict[int, dict[str, str]]:
    """The snapshots of a session: seq to root name to snapshot id."""
    found: dict[int, dict[str, str]] = {}
    for row in cursor.execute(SQL["read_snapshots"], (sid,)):
        seq, root, _, snapshot = _unsealed(row)
        found.setdefault(seq, {})[root] = snapshot
    return found


def of_pool(cursor: apsw.Cursor, pool: str, without: Sequence[str] = ()) -> frozenset[str]:
    """Snapshots in a pool that sessions other than `without` reference. Corrupt rather than an incomplete answer,
    because whatever is missing here gets swept."""
    found = [cursor.execute(SQL["find_sid"], (to_text(session),)).fetchone() for session in without]
    gone = {row[0] for row in found if row is not None}
    rows = cursor.execute(SQL["read_snapshots_of_pool"], (to_text(pool),)).fetchall()
    return frozenset(_unsealed(row)[3] for row in rows if row[0] not in gone)


def drop(cursor: apsw.Cursor, sid: int, seq: int, roots: Collection[str] | None) -> int:
    """Delete a step's snapshots, of all roots or of these; returns how many there were."""
    if roots is None:
        cursor.execute(SQL["delete_snapshots_of_step"], (sid, seq))
        return cursor.connection.changes()
    count = 0
    for root in roots:
        cursor.execute(SQL["delete_snapshot"], (sid, seq, to_text(root)))
        count += cursor.connection.changes()
    return count


def _unsealed(row: Row) -> tuple[int, str, str, str]:
    sid, seq, *texts, sealed = row
    stored = [text.decode("utf-8", "replace") if isinstance(text, bytes) else "" for text in texts]
    if sealed != row_seal("snapshot", sid, seq, *stored):
        raise Corrupt("the row of a snapshot fails its seal")
    root, pool, snapshot = map(from_text, stored)
    return seq, root, pool, snapshot


def add_segment(cursor: apsw.Cursor, pool: str, segment: str) -> None:
    """Register a segment, so that steps may reference it."""
    row = (to_text(pool), to_text(segment))
    cursor.execute(SQL["insert_segment"], (*row, row_seal("segment", *row)))


def remove_segments(cursor: apsw.Cursor, pool: str, segments: Iterable[str]) -> None:
    """Unregister segments before they are swept."""
    for segment in segments:
        cursor.execute(SQL["delete_segment"], (to_text(pool), to_text(segment)))


def segments(cursor: apsw.Cursor, pool: str) -> frozenset[str]:
    """The segments of a pool; Corrupt rather than an incomplete answer."""
    found = set[str]()
    for *texts, sealed in cursor.execute(SQL["read_segments"], (to_text(pool),)):
        stored = [text.decode("utf-8", "replace") if isinstance(text, bytes) else "" for text in texts]
        if sealed != row_seal("segment", *stored):
            raise Corrupt("the row of a segment fails its seal")
        found.add(from_text(stored[1]))
    return frozenset(found)


def pools(cursor: apsw.Cursor) -> frozenset[str]:
    """All pools that have a segment or a snapshot."""
    return frozenset(read_text(pool) or "" for (pool,) in cursor.execute(SQL["read_pools"]))
