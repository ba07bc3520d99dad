"""Committing steps: planned here on the head that was read, written by the server if the head is still the same.

The head of a session this process has written to is cached, so that a step costs one round trip; if another process
moved it, the script replies with the present one, and the step is planned again. A claim is always planned on a head
and a time that were just read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from relight.errors import Corrupt, NotFound, SnapshotSwept, StoreFull, StoreReadOnly, StoreUnavailable
from relight.journal.commit import plan_commit
from relight.journal.queues.order import queue_row_of
from relight.ports import faults
from relight.ports.clock import Clock
from relight.stores.redis import rows
from relight.stores.redis.expiry import Expiry
from relight.stores.redis.keys import Keys, SessionKeys, body_field, text_bytes
from relight.stores.redis.queues import Queues
from relight.stores.redis.reading import Reading
from relight.stores.redis.server import Command, Reply, Server
from relight.stores.redis.server_time import ServerTime
from relight.stores.session_locks import SessionLocks
from relight.values.lease import Instant
from relight.values.session import Head
from relight.values.snapshot import Snapshot
from relight.values.status import FINISHED
from relight.values.step import Committed, Draft, Step

MAX_ATTEMPTS: Final = 64
"""compare-and-set attempts; a lease lets one writer in, so that more means that something is wrong"""
MAX_CACHED_SESSIONS: Final = 4096


class StoredHead(msgspec.Struct, frozen=True, gc=False):
    """A head and its stored bytes."""

    raw: bytes
    head: Head


class Journal:
    """Writes heads and steps. Thread-safe: threads of one process serialise on a session instead of racing for its
    head."""

    def __init__(self, server: Server, keys: Keys, server_time: ServerTime, clock: Clock, reading: Reading) -> None:
        self._server = server
        self._keys = keys
        self._time = server_time
        self._clock = clock
        self._reading = reading
        self.queues = Queues(server, keys)
        self.expiry = Expiry(server, keys)
        self.session_locks = SessionLocks()
        """they serialise this process's writes to a session"""
        self._cached: dict[str, StoredHead] = {}
        self._acknowledged: dict[str, tuple[int, int]] = {}
        """epoch and seq of the newest head that was acknowledged to this process"""
        self._in_doubt: set[bytes] = set()
        """keys of commits that got no reply"""

    def after_fork(self) -> None:
        """In a forked child: locks may be held by threads of the parent."""
        self.session_locks = SessionLocks()

    # -- writing --------------------------------------------------------------------------------------------------

    def commit(self, session: str, draft: Draft) -> Committed:
        """Commit one step, or raise and write nothing; StoreUnavailable if the outcome is unknown."""
        faults.point("commit.enter")
        with self.session_locks.of(session):
            if draft.claim is not None:
                self._cached.pop(session, None)
            stored = self._cached_head(session)
            faults.point("commit.begun")
            for _ in range(MAX_ATTEMPTS):
                now = self._time.now()
                committed = plan_commit(stored.head, draft, at_us=self._clock.now_us(), now=now)
                faults.point("commit.written")
                reply, raw = self._append(stored, committed, draft)
                self._time.observe(reply.at_us)
                if not reply.failed:
                    break
                stored = self._present_head(session, draft, reply)
            else:
                raise StoreUnavailable(f"{session}: concurrent writers keep changing its head; nothing was written")
            self._cache(session, StoredHead(raw, committed.head))
        faults.point("commit.committed")
        if committed.head.status in FINISHED and stored.head.status not in FINISHED:
            self.expiry.tidy()
        return committed

    def _append(self, stored: StoredHead, committed: Committed, draft: Draft) -> tuple[Reply, bytes]:
        keys = self._keys.session(committed.head.session)
        raw = rows.head_bytes(committed.head)
        checks, commands = self.step_commands(keys, committed.step, draft.snapshots)
        checks = [("value", keys.head, stored.raw), ("field", keys.steps, committed.step.seq, b""), *checks]
        commands.append(("INCR", self._keys.changes))
        if draft.label is not None:
            row = rows.label_row(committed.head.session, committed.step.seq, draft.label)
            commands.append(("RPUSH", keys.labels, row))
        slot_checks, slot_commands = self.queues.slot_commands(stored.head, draft, self._time.now())
        commands += self.queues.move_commands(keys, queue_row_of(stored.head), queue_row_of(committed.head))
        commands += slot_commands
        if committed.head.status != stored.head.status:
            member = self._server.execute("HGET", keys.facts, "m")
            checks.append(("field", keys.facts, "m", member or b""))
            commands += self.status_commands(member or b"", stored.head, committed.head)
        checks += slot_checks
        ending: list[Command] = []
        if {stored.head.status, committed.head.status} & FINISHED:
            ending_checks, ending = self.expiry.step_commands(keys, stored.head, committed.head)
            checks, commands = checks + ending_checks, commands + ending
        # The head comes last: if an earlier command fails on a damaged key, nothing is committed.
        commands.append(("SET", keys.head, raw, "KEEPTTL"))
        # A deadline that has passed meanwhile has deleted the key at once, and the new one would be kept for ever.
        commands += [one for one in ending if one[:2] == ("PEXPIREAT", keys.head)]
        try:
            return self._server.transact(checks, commands), raw
        except (StoreFull, StoreReadOnly, Corrupt):
            raise  # refused: certainly nothing was written
        except BaseException:  # no reply: the script may have run, or may still run
            self._cached.pop(committed.head.session, None)
            self._in_doubt.add(draft.key)
            raise

    def step_commands(
        self, keys: SessionKeys, step: Step, snapshots: Sequence[Snapshot]
    ) -> tuple[list[Command], list[Command]]:
        """Checks and commands of a step: its row, its body, its snapshots, and the store's size."""
        commands: list[Command] = [
            ("HSET", keys.steps, step.seq, rows.step_columns(step), body_field(step.seq), step.body),
            ("INCRBY", self._keys.size, len(step.body)),
        ]
        checks: list[Command] = []
        for one in snapshots:
            row, pool = rows.snapshot_row(step.session, step.seq, one), text_bytes(one.pool)
            segments = self._keys.segments(one.pool)
            checks += [("member", segments, rows.segment_row(one.pool, name)) for name in one.segments]
            commands += [
                ("HSET", keys.snapshots, row, self._keys.named(one.pool)),
                ("SADD", self._keys.named(one.pool), row),
                ("SADD", self._keys.pools, pool),
            ]
        return checks, commands

    def status_commands(self, member: bytes, before: Head | None, after: Head) -> list[Command]:
        """Commands that move a session from the index of one status to that of another."""
        others = [before.status] if before is not None else [one for one in self._keys.statuses if one != after.status]
        moved: list[Command] = [("ZADD", self._keys.statuses[after.status], 0, member)]
        return moved + [("ZREM", self._keys.statuses[status], member) for status in others]

    def _present_head(self, session: str, draft: Draft, reply: Reply) -> StoredHead:
        """The present head, if it was the check that failed; otherwise raise the error."""
        if reply.failed == 1:
            return self._read(session, reply.found)
        if reply.failed == 2:
            raise Corrupt("the journal has a step beyond its head", session=session)
        names = [(one.pool, segment) for one in draft.snapshots for segment in one.segments]
        if (number := reply.failed - 3) < len(names):
            raise SnapshotSwept(session, names[number][0])
        return self._cached_head(session)

    def update_head(self, session: str, plan: Callable[[Head, Instant], Head], *, is_change: bool) -> None:
        """Replace a head by what `plan` computes from it, without a step."""
        with self.session_locks.of(session):
            stored = self._cached_head(session)
            for _ in range(MAX_ATTEMPTS):
                head = plan(stored.head, self._time.now())
                raw = rows.head_bytes(head)
                reply = self._put_head(session, stored.raw, raw, is_change=is_change)
                if not reply.failed:
                    self._cache(session, StoredHead(raw, head))
                    return
                stored = self._read(session, reply.found)
        raise StoreUnavailable(f"{session}: concurrent writers keep changing its head; nothing was written")

    def _put_head(self, session: str, expected: bytes, raw: bytes, *, is_change: bool) -> Reply:
        key = self._keys.session(session).head
        commands: list[Command] = [("SET", key, raw, "KEEPTTL")]
        if is_change:
            commands.append(("INCR", self._keys.changes))
        try:
            reply = self._server.transact([("value", key, expected)], commands)
        except StoreUnavailable:
            self._cached.pop(session, None)
            raise
        self._time.observe(reply.at_us)
        return reply

    # -- what was unknown -----------------------------------------------------------------------------------------

    def find_commit(self, session: str, key: bytes, after: int) -> Committed | None:
        """The step with this key after seq `after`. None is final: a request still on its way cannot be written any
        more."""
        with self.session_locks.of(session):
            for _ in range(MAX_ATTEMPTS):
                self._cached.pop(session, None)
                stored = self._cached_head(session)
                step = self._reading.find_key(session, key, after, stored.head)
                if step is not None:
                    self._in_doubt.discard(key)
                    return Committed(step=step, head=stored.head)
                if key not in self._in_doubt:
                    return None
                # The lost request is a compare-and-set on the head's bytes. Rewriting the head with a new nonce makes
                # it fail, should it still arrive.
                raw = rows.head_bytes(stored.head)
                if not self._put_head(session, stored.raw, raw, is_change=False).failed:
                    self._in_doubt.discard(key)
                    return None
        raise StoreUnavailable(f"{session}: concurrent writers keep changing its head; the outcome is unknown")

    # -- heads ----------------------------------------------------------------------------------------------------

    def _cached_head(self, session: str) -> StoredHead:
        return self._cached.get(session) or self._fetch_head(session)

    def _fetch_head(self, session: str) -> StoredHead:
        raw, (seconds, micros) = self._server.execute_all([("GET", self._keys.session(session).head), ("TIME",)])
        self._time.observe(int(seconds) * 1_000_000 + int(micros))
        return self._read(session, raw or b"")

    def _read(self, session: str, raw: bytes) -> StoredHead:
        head = rows.read_head(raw, session)
        if head is None:
            self._cached.pop(session, None)
            if not raw and not self._server.execute("EXISTS", self._keys.session(session).identity):
                raise NotFound(session)
            raise Corrupt("its head fails its seal", session=session)
        epoch, seq = self._acknowledged.get(session, (-1, 0))
        if head.epoch == epoch and head.seq < seq:
            raise Corrupt(
                f"step {seq} was acknowledged, and the journal ends at {head.seq}: "
                "the server restarted without the writes that it had not synced",
                session=session,
            )
        return StoredHead(raw, head)

    def _cache(self, session: str, stored: StoredHead) -> None:
        if len(self._cached) >= MAX_CACHED_SESSIONS:
            self._cached.clear()
            self._acknowledged.clear()
        self._cached[session] = stored
        self._acknowledged[session] = stored.head.epoch, stored.head.seq

    def forget(self, session: str) -> None:
        """Drop what is cached of a session that was deleted or whose head was replaced."""
        self._cached.pop(session, None)
        self._acknowledged.pop(session, None)
