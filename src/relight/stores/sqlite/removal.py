"""Deletion that leaves no byte of a session in the file or its log.

Order: one transaction deletes every row (secure_delete zeroes their bytes); the log is checkpointed and truncated;
then, under the write lock and with an empty log, what secure_delete misses is zeroed (`scrub`).

On a full disk there is room only for what the reserve holds (`reserve`), so free pages are not zeroed by way of the log
but by `scrub`, which also returns their space to the disk. COMMIT is the commit point there too: a kill before it
leaves the sessions as they were; after it they are gone, and the next removal zeroes what this one had not.

A process that reads an older state keeps the log from being truncated. Then an error says that the sessions are gone
and some of their bytes are not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import apsw

from relight.errors import Conflict, StoreUnavailable
from relight.ports.clock import Clock
from relight.stores.sqlite import migrate, search
from relight.stores.sqlite.commits import Journal
from relight.stores.sqlite.connection import files
from relight.stores.sqlite.rows import CHILD_OF, id_range, read_text, to_text
from relight.stores.sqlite.scrub import scrub
from relight.stores.sqlite.statements import SQL

CUT_TRIES: Final = 20
CUT_SECONDS: Final = 0.1
"""timeout for a lock, and pause between attempts"""
_OF_SESSION: Final = (
    "delete_head",
    "delete_snapshots",
    "delete_all_checkpoint_labels",
    "delete_session_labels",
    "delete_waiting",
    "delete_session",
)


def check_epochs(cursor: apsw.Cursor, journal: Journal, epochs: Mapping[str, int]) -> None:
    """Conflict if one of these sessions was claimed or removed since its epoch was read."""
    for session, epoch in epochs.items():
        known = cursor.execute(SQL["find_sid"], (to_text(session),)).fetchone()
        if known is None or journal.read_head(cursor, session)[1].epoch != epoch:
            raise Conflict(f"{session}: it was claimed or removed meanwhile")


def remove_rows(cursor: apsw.Cursor, sessions: Sequence[str]) -> list[int]:
    """Delete all rows of these sessions; returns their numbers. Conflict if a fork or a child outside refers to one."""
    going = set(sessions)
    for what, statement, key in (("fork", "find_forks", ()), ("child", "find_children", (CHILD_OF,))):
        referring = [
            (read_text(one) or "", session)
            for session in going
            for (one,) in cursor.execute(SQL[statement], (*key, to_text(session))).fetchall()
        ]
        for id_, session in sorted(referring):
            if id_ not in going:
                raise Conflict(f"{session}: the {what} {id_} needs it")
    rows = [cursor.execute(SQL["find_sid"], (to_text(session),)).fetchone() for session in going]
    sids = [int(row[0]) for row in rows if row is not None]
    search.remove_sessions(cursor, sids)
    for sid in sids:
        _remove(cursor, sid)
    cursor.execute(SQL["clamp_search_progress"])
    return sids


def _remove(cursor: apsw.Cursor, sid: int) -> None:
    for statement in ("delete_bodies", "delete_older_bodies", "delete_steps"):
        cursor.execute(SQL[statement], id_range(sid))
    for statement in _OF_SESSION:
        cursor.execute(SQL[statement], (sid,))


def wipe(connection: apsw.Connection, clock: Clock, path: Path, *, give_back: bool = False) -> None:
    """Remove the bytes of deleted rows from the file and its log, on a connection of its own; `give_back`: and return
    their space to the disk."""
    connection.set_busy_timeout(round(CUT_SECONDS * 1000))
    for _ in range(CUT_TRIES):
        try:
            connection.wal_checkpoint("main", apsw.SQLITE_CHECKPOINT_TRUNCATE)
            connection.execute(SQL["begin"])
        except (apsw.BusyError, apsw.LockedError):
            clock.sleep(CUT_SECONDS)
            continue
        if not files.size_bytes(files.wal_of(path)):  # else another process wrote in between: truncate again
            scrub(connection, str(path), give_back=give_back)
            # Other connections cache pages that hold the same leftovers, and could write them back with their next
            # change.
            connection.execute(SQL["invalidate_caches"].format(version=migrate.VERSION))
            connection.execute(SQL["commit"])
            return
        connection.execute(SQL["rollback"])
    raise StoreUnavailable(
        f"{path}: the sessions are deleted, but a reader keeps some of their bytes in the write-ahead log",
        hints=[f"end the programs that have it open (fuser {path}-wal), and delete any session to wipe it again"],
    )
