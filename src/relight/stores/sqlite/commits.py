"""Writing steps to their rows, inside a transaction that the caller opened and will commit.

`begin`, then `plan` for every step, then `flush`. Planning decides against the heads of this transaction, including the
steps planned before; flushing writes all bodies, all steps and all heads.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Final

import apsw

from relight.errors import Corrupt, NotFound
from relight.journal.chain import seal
from relight.journal.commit import plan_commit
from relight.stores.sqlite import queues, snapshots
from relight.stores.sqlite.connection.database import Database
from relight.stores.sqlite.health import lost
from relight.stores.sqlite.rows import ended_columns, step_row, to_text
from relight.stores.sqlite.statements import SQL
from relight.stores.stored_rows import Row, label_seal, unsealed_head
from relight.values.lease import Instant
from relight.values.session import Head
from relight.values.snapshot import Snapshot
from relight.values.status import ENDED
from relight.values.step import Committed, Draft, Step

MAX_CACHED_SESSIONS: Final = 4096
"""sessions whose number and newest head are cached"""
MAX_ROWS: Final = 32
"""rows in one INSERT; statements exist for powers of two only, so that few are ever prepared"""
_FIND_SID: Final = SQL["find_sid"]
_READ_HEAD: Final = SQL["read_head"]


class Journal:
    """Reads and writes heads and steps. Not thread-safe: only the holder of the write lock uses it."""

    def __init__(self, database: Database) -> None:
        self._watermark = database.watermark
        self._misses = database.misses
        self._version = -1
        self._sids: dict[str, int] = {}
        self._heads: dict[int, Head] = {}
        """newest heads, including the planned steps"""
        self._next_body: int | None = None
        self._bodies: list[Row] = []
        self._steps: list[Row] = []
        """planned and not yet written"""
        self._moved_heads: dict[int, Head] = {}
        """heads after the planned steps"""

    def begin(self, cursor: apsw.Cursor) -> None:
        """Call first in every transaction."""
        # Another process moves heads too: cached ones are valid only while `data_version`, read inside the transaction,
        # shows that no other connection has committed.
        version = cursor.connection.data_version()
        if version != self._version or len(self._heads) > MAX_CACHED_SESSIONS:
            self.forget()
            self._version = version

    def end(self, cursor: apsw.Cursor) -> None:
        """Call after COMMIT: the version counts our own commits too, and those do not invalidate the cache."""
        self._version = cursor.connection.data_version()

    def plan(self, cursor: apsw.Cursor, session: str, draft: Draft, at_us: int, now: Instant) -> Committed:
        """Plan one step. A refusal raises before anything is written, so that it leaves nothing behind."""
        sid, head = self.read_head(cursor, session)
        committed = plan_commit(head, draft, at_us=at_us, now=now)
        slots = queues.planned_slots(cursor, head, draft, now, self.holder) if draft.claim is not None else None
        step, after = committed.step, committed.head
        body_id = self._body_id(cursor) + len(self._bodies)
        row = step_row(sid, step, body_id)
        if draft.snapshots:
            snapshots.check_segments(cursor, session, draft.snapshots)
            for taken in snapshots.rows_of(sid, step.seq, draft.snapshots):
                cursor.execute(SQL["insert_snapshot"], taken)
        self._steps.append(row)
        self._bodies.append((body_id, draft.body, row[0]))
        self._heads[sid] = self._moved_heads[sid] = after
        if slots is not None:
            cursor.execute(SQL["put_record"], slots)
        if head.queue_position is not None or after.queue_position is not None:
            queues.move(cursor, sid, head, after)
        if after.status != head.status or after.status in ENDED:
            cursor.execute(SQL["set_status"], (after.status, *ended_columns(after), sid))
        if draft.label is not None:
            self.write_label(cursor, sid, step.seq, draft.label)
        return committed

    def flush(self, cursor: apsw.Cursor) -> list[tuple[int, int]]:
        """Write the planned steps; returns (session number, seq) to acknowledge once they are durable."""
        if not self._steps:
            return []
        # Few statements with many rows: apsw releases the interpreter lock in each, and a leader with thirty steps
        # should not have to win it back sixty times.
        _insert(cursor, _INSERT_BODIES, self._bodies)
        _insert(cursor, _INSERT_STEPS, self._steps)
        heads, acknowledged = [], []
        for sid, head in self._moved_heads.items():
            heads.append((seal(head), sid))
            acknowledged.append((sid, head.seq))
        _insert(cursor, _PUT_HEADS, heads)
        self._next_body = self._bodies[-1][0] + 1
        self._bodies, self._steps, self._moved_heads = [], [], {}
        return acknowledged

    def insert_imported(self, cursor: apsw.Cursor, sid: int, step: Step, taken: Sequence[Snapshot]) -> None:
        """Insert a step that was committed in another store, unchanged. Its session's head exists already."""
        body_id = self._body_id(cursor)
        snapshots.check_segments(cursor, step.session, taken)
        for one in snapshots.rows_of(sid, step.seq, taken):
            cursor.execute(SQL["insert_snapshot"], one)
        row = step_row(sid, step, body_id)
        cursor.execute(_INSERT_BODIES[1], (body_id, step.body, row[0]))
        cursor.execute(_INSERT_STEPS[1], row)
        self._next_body = body_id + 1

    def _body_id(self, cursor: apsw.Cursor) -> int:
        """The row id of the first planned body."""
        if self._next_body is None:
            self._next_body = (cursor.execute(SQL["last_body"]).get or 0) + 1
        return self._next_body

    def read_head(self, cursor: apsw.Cursor, session: str) -> tuple[int, Head]:
        """A session's number and head; NotFound, or Corrupt if the head cannot be read or is below the watermark."""
        sid = self.sid_of(cursor, session)
        head = self._heads.get(sid)
        if head is None:
            row = cursor.execute(_READ_HEAD, (sid,)).fetchone()
            head = unsealed_head(row[0]) if row is not None else None
            if head is None or head.session != session:
                raise Corrupt("its head fails its seal", session=session)
            if head.seq < (acknowledged := self._watermark.seq(sid)):
                raise lost(session, acknowledged, head.seq)
            self._heads[sid] = head
        return sid, head

    def put_head(self, cursor: apsw.Cursor, sid: int, head: Head) -> None:
        """Write a head without a step: of a new session, a renewed or released lease, or a rebuilt one."""
        cursor.execute(SQL["put_head"], (seal(head), sid))
        self._heads[sid] = head

    def holder(self, cursor: apsw.Cursor, session: str) -> Head | None:
        """The head of another session after the planned steps; None if it is gone."""
        try:
            return self.read_head(cursor, session)[1]
        except (NotFound, Corrupt):
            return None

    def write_label(self, cursor: apsw.Cursor, sid: int, seq: int, label: str) -> None:
        """Give a checkpoint a label."""
        stored = to_text(label)
        cursor.execute(SQL["insert_label"], (sid, seq, stored, label_seal(sid, seq, stored)))

    def sid_of(self, cursor: apsw.Cursor, session: str) -> int:
        """A session's number inside the file, never reused; or NotFound."""
        sid = self._sids.get(session)
        if sid is None:
            row = cursor.execute(_FIND_SID, (to_text(session),)).fetchone()
            if row is None:
                self._misses.check(cursor)
                raise NotFound(session)
            sid = self._sids[session] = row[0]
        return sid

    def forget(self) -> None:
        """Drop all caches: the transaction was rolled back, or another connection has committed."""
        self._next_body = None
        for cache in (self._sids, self._heads, self._bodies, self._steps, self._moved_heads):
            cache.clear()


def _statements_by_size(statement: str) -> dict[int, str]:
    """The same INSERT for 1, 2, 4, ... rows, by repeating its last line, the row of placeholders."""
    first, _, row = statement.rpartition("\n")
    sizes = [1 << power for power in range(MAX_ROWS.bit_length())]
    return {size: first + "\n" + ", ".join([row] * size) for size in sizes}


def _insert(cursor: apsw.Cursor, statements: dict[int, str], rows: list[Row]) -> None:
    if len(rows) == 1:
        cursor.execute(statements[1], rows[0])
        return
    start = 0
    while start < len(rows):
        size = min(MAX_ROWS, 1 << (len(rows) - start).bit_length() - 1)
        cursor.execute(statements[size], tuple(chain.from_iterable(rows[start : start + size])))
        start += size


_INSERT_BODIES: Final = _statements_by_size(SQL["insert_body"])
_INSERT_STEPS: Final = _statements_by_size(SQL["insert_step"])
_PUT_HEADS: Final = _statements_by_size(SQL["put_head"])
