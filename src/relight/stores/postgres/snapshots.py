"""Which step references which workspace snapshot, and which segments of a pool exist.

A step that references a snapshot locks the rows of its segments inside its own transaction, and a sweep deletes the row
before the file. So either the sweep waits for the step and sees it, or the step finds no row.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from relight.errors import Corrupt, SnapshotSwept
from relight.stores.postgres.connections import Cursor
from relight.stores.postgres.rows import from_bytes, to_bytes
from relight.stores.postgres.statements import SQL
from relight.stores.stored_rows import Row, row_seal
from relight.values.snapshot import Snapshot


def rows_of(sid: int, seq: int, snapshots: Sequence[Snapshot]) -> list[Row]:
    """Bindings of `insert_snapshot`, one row per snapshot."""
    columns = ((sid, seq, to_bytes(one.root), to_bytes(one.pool), to_bytes(one.id)) for one in snapshots)
    return [(*row, row_seal("snapshot", *row)) for row in columns]


def lock_segments(cursor: Cursor, session: str, snapshots: Sequence[Snapshot]) -> None:
    """Lock the rows of their segments until this transaction ends; SnapshotSwept if one is gone."""
    for one in sorted(snapshots, key=lambda snapshot: snapshot.pool):
        wanted = {to_bytes(segment) for segment in one.segments}
        if not wanted:
            continue
        rows = cursor.execute(SQL["lock_segments"], (to_bytes(one.pool), sorted(wanted))).fetchall()
        if len(rows) != len(wanted):
            raise SnapshotSwept(session, one.pool)


def of_session(cursor: Cursor, sid: int) -> dict[int, dict[str, str]]:
    """The snapshots of a session: seq to root name to snapshot id."""
    found: dict[int, dict[str, str]] = {}
    for row in cursor.execute(SQL["read_snapshots"], (sid,)).fetchall():
        seq, root, _, snapshot = _unsealed(row)
        found.setdefault(seq, {})[root] = snapshot
    return found


def of_pool(cursor: Cursor, pool: str, without: Sequence[str] = ()) -> frozenset[str]:
    """Snapshots in a pool that sessions other than `without` reference. Corrupt rather than an incomplete answer,
    because whatever is missing here gets swept."""
    given = (to_bytes(pool), [to_bytes(session) for session in without])
    return frozenset(_unsealed(row)[3] for row in cursor.execute(SQL["read_snapshots_of_pool"], given).fetchall())


def drop(cursor: Cursor, sid: int, seq: int, roots: Collection[str] | None) -> int:
    """Delete a step's snapshots, of all roots or of these; returns how many there were."""
    if roots is None:
        return cursor.execute(SQL["delete_snapshots_of_step"], (sid, seq)).rowcount
    return sum(cursor.execute(SQL["delete_snapshot"], (sid, seq, to_bytes(root))).rowcount for root in roots)


def _unsealed(row: Row) -> tuple[int, str, str, str]:
    sid, seq, root, pool, snapshot, sealed = row
    if sealed != row_seal("snapshot", sid, seq, root, pool, snapshot):
        raise Corrupt("the row of a snapshot fails its seal")
    return seq, from_bytes(root), from_bytes(pool), from_bytes(snapshot)


def add_segment(cursor: Cursor, pool: str, segment: str) -> None:
    """Register a segment, so that steps may reference it."""
    row = (to_bytes(pool), to_bytes(segment))
    cursor.execute(SQL["insert_segment"], (*row, row_seal("segment", *row)))


def remove_segments(cursor: Cursor, pool: str, segments: Iterable[str]) -> None:
    """Unregister segments before they are swept."""
    cursor.execute(SQL["delete_segments"], (to_bytes(pool), [to_bytes(segment) for segment in segments]))


def segments(cursor: Cursor, pool: str) -> frozenset[str]:
    """The segments of a pool; Corrupt rather than an incomplete answer."""
    found = set[str]()
    for stored_pool, name, sealed in cursor.execute(SQL["read_segments"], (to_bytes(pool),)).fetchall():
        if sealed != row_seal("segment", stored_pool, name):
            raise Corrupt("the row of a segment fails its seal")
        found.add(from_bytes(name))
    return frozenset(found)


def pools(cursor: Cursor) -> frozenset[str]:
    """All pools that have a segment or a snapshot."""
    return frozenset(from_bytes(pool) for (pool,) in cursor.execute(SQL["read_pools"]).fetchall())
