"""Deletion: every row of a session in one transaction that locks out writers, forks and labels.

What the server does with the bytes afterwards is its own: they remain in the table's pages until a vacuum, and in the
write-ahead log until its segments are recycled. docs/stores.md says how to hurry both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from relight.errors import Conflict, Corrupt
from relight.stores.postgres import search
from relight.stores.postgres.connections import Cursor
from relight.stores.postgres.rows import CHILD_OF, from_bytes, to_bytes
from relight.stores.postgres.statements import SQL
from relight.stores.stored_rows import unsealed_head


def remove(cursor: Cursor, sessions: Sequence[str], epochs: Mapping[str, int]) -> None:
    """Delete all rows of these sessions. Conflict if another fork or child refers to one, or an epoch has changed."""
    going = sorted({to_bytes(session) for session in sessions})
    looked_at = sorted({*going, *map(to_bytes, epochs)})
    heads: dict[int, bytes] = dict(cursor.execute(SQL["lock_heads"], (looked_at,)).fetchall())
    rows = cursor.execute(SQL["lock_sessions"], (looked_at,)).fetchall()
    there = {from_bytes(id_): sid for sid, id_ in rows}
    for session, epoch in epochs.items():
        if session not in there:
            raise Conflict(f"{session}: it was removed meanwhile")
        _check_epoch(session, heads.get(there[session]), epoch)
    for fork, parent in cursor.execute(SQL["find_forks"], (going, going)).fetchall():
        raise Conflict(f"{from_bytes(parent)}: the fork {from_bytes(fork)} needs it")
    for child, parent in cursor.execute(SQL["find_children"], (CHILD_OF, going, going)).fetchall():
        raise Conflict(f"{from_bytes(parent)}: the child {from_bytes(child)} needs it")
    sids = [sid for sid, id_ in rows if id_ in set(going)]
    search.remove_sessions(cursor, sids)
    cursor.execute(SQL["delete_sessions"], {"sids": sids})


def _check_epoch(session: str, record: bytes | None, epoch: int) -> None:
    head = unsealed_head(record)
    if head is None:
        raise Corrupt("its head fails its seal", session=session)
    if head.epoch != epoch:
        raise Conflict(f"{session}: it was claimed meanwhile")
