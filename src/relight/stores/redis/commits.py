"""Steps into the journal: planned here on the head that was read, written there if the head is still the same.

The head of a session this process has written to is remembered, so that a step costs one round trip; where somebody
else moved it, the function answers with the present one, and it is planned again. A claim is always planned on a head
and a time that were just read.

A request whose answer was lost may still be on its way. `find_commit` fences it off before it says "no": it rewrites
the head, and the late request then finds another one than it expects.
"""

from __future__ import annotations

import threading
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
from relight.stores.redis.queues import Lines
from relight.stores.redis.reading import Reading
from relight.stores.redis.server import Answer, Server, Words
from relight.stores.redis.server_time import Moments
from relight.values.lease import Instant
from relight.values.session import Head
from relight.values.snapshot import Snapshot
from relight.values.status import FINISHED
from relight.values.step import Committed, Draft, Step

MAX_TRIES: Final = 64
"""heads that others moved under one write; a lease lets one writer in, so that more means that something is wrong"""
MAX_REMEMBERED: Final = 4096
LOCKS: Final = 64


class Stored(msgspec.Struct, frozen=True, gc=False):
    """A head and its bytes."""

    raw: bytes
    head: Head


class Journal:
    """Thread-safe: threads of one process take turns on a session instead of racing for its head."""

    def __init__(self, server: Server, keys: Keys, moments: Moments, clock: Clock, reading: Reading) -> None:
        self._server = server
        self._keys = keys
        self._moments = moments
        self._clock = clock
        self._reading = reading
        self.lines = Lines(server, keys)
        self.expiry = Expiry(server, keys)
        self._locks = [threading.Lock() for _ in range(LOCKS)]
        self._remembered: dict[str, Stored] = {}
        self._told: dict[str, tuple[int, int]] = {}
        """epoch and seq of the newest head this process was told is written"""
        self._doubtful: set[bytes] = set()
        """writers' keys of requests that got no answer"""

    def turn(self, session: str) -> threading.Lock:
        """Whose turn it is on a session, within this process."""
        return self._locks[hash(session) % LOCKS]

    def after_fork(self) -> None:
        """In a child nobody holds a lock, whoever held one in the parent."""
        self._locks = [threading.Lock() for _ in range(LOCKS)]

    # -- writing --------------------------------------------------------------------------------------------------

    def commit(self, session: str, draft: Draft) -> Committed:
        """One step, or an error and nothing; StoreUnavailable where nobody knows."""
        faults.point("commit.enter")
        with self.turn(session):
            if draft.claim is not None:
                self._remembered.pop(session, None)
            stored = self._stored(session)
            faults.point("commit.begun")
            for _ in range(MAX_TRIES):
                now = self._moments.now()
                committed = plan_commit(stored.head, draft, at_us=self._clock.now_us(), now=now)
                faults.point("commit.written")
                answer, raw = self._append(stored, committed, draft)
                self._moments.seen(answer.at_us)
                if not answer.failed:
                    break
                stored = self._refused(session, draft, answer)
            else:
                raise StoreUnavailable(f"{session}: others keep moving its head; nothing was written")
            self._remember(session, Stored(raw, committed.head))
        faults.point("commit.committed")
        if committed.head.status in FINISHED and stored.head.status not in FINISHED:
            self.expiry.tidy()
        return committed

    def _append(self, stored: Stored, committed: Committed, draft: Draft) -> tuple[Answer, bytes]:
        keys = self._keys.session(committed.head.session)
        raw = rows.head_bytes(committed.head)
        checks, commands = self.step_words(keys, committed.step, draft.snapshots)
        checks = [("value", keys.head, stored.raw), ("field", keys.steps, committed.step.seq, b""), *checks]
        commands.append(("INCR", self._keys.changes))
        if draft.label is not None:
            row = rows.label_row(committed.head.session, committed.step.seq, draft.label)
            commands.append(("RPUSH", keys.labels, row))
        slot_checks, slot_commands = self.lines.slot_words(stored.head, draft, self._moments.now())
        commands += self.lines.move_words(keys, queue_row_of(stored.head), queue_row_of(committed.head))
        commands += slot_commands
        if committed.head.status != stored.head.status:
            member = self._server.ask("HGET", keys.facts, "m")
            checks.append(("field", keys.facts, "m", member or b""))
            commands += self.status_words(member or b"", stored.head, committed.head)
        checks += slot_checks
        if {stored.head.status, committed.head.status} & FINISHED:
            ending_checks, ending = self.expiry.words(keys, stored.head, committed.head)
            checks, commands = checks + ending_checks, commands + ending
        # Last: should a key before it be damaged, nothing is committed.
        commands.append(("SET", keys.head, raw, "KEEPTTL"))
        try:
            return self._server.transact(checks, commands), raw
        except (StoreFull, StoreReadOnly, Corrupt):
            raise  # refused: certainly nothing was written
        except BaseException:
            self._remembered.pop(committed.head.session, None)
            self._doubtful.add(draft.key)
            raise

    def step_words(
        self, keys: SessionKeys, step: Step, snapshots: Sequence[Snapshot]
    ) -> tuple[list[Words], list[Words]]:
        """Checks and commands of a step: its rows, its snapshots, and how much there is."""
        commands: list[Words] = [
            ("HSET", keys.steps, step.seq, rows.step_columns(step), body_field(step.seq), step.body),
            ("INCRBY", self._keys.size, len(step.body)),
        ]
        checks: list[Words] = []
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

    def status_words(self, member: bytes, before: Head | None, after: Head) -> list[Words]:
        """Commands that move a session from the index of one status to that of another."""
        others = [before.status] if before is not None else [one for one in self._keys.statuses if one != after.status]
        moved: list[Words] = [("ZADD", self._keys.statuses[after.status], 0, member)]
        return moved + [("ZREM", self._keys.statuses[status], member) for status in others]

    def _refused(self, session: str, draft: Draft, answer: Answer) -> Stored:
        """The present head, where that is what was in the way; else the error."""
        if answer.failed == 1:
            return self._read(session, answer.found)
        if answer.failed == 2:
            raise Corrupt("a step stands in the journal that its head knows nothing of", session=session)
        names = [(one.pool, segment) for one in draft.snapshots for segment in one.segments]
        if (number := answer.failed - 3) < len(names):
            raise SnapshotSwept(session, names[number][0])
        return self._stored(session)

    def replan(self, session: str, plan: Callable[[Head, Instant], Head], *, is_change: bool) -> None:
        """Replace a head by what `plan` makes of it."""
        with self.turn(session):
            stored = self._stored(session)
            for _ in range(MAX_TRIES):
                head = plan(stored.head, self._moments.now())
                raw = rows.head_bytes(head)
                answer = self._put(session, stored.raw, raw, is_change=is_change)
                if not answer.failed:
                    self._remember(session, Stored(raw, head))
                    return
                stored = self._read(session, answer.found)
        raise StoreUnavailable(f"{session}: others keep moving its head; nothing was written")

    def _put(self, session: str, expected: bytes, raw: bytes, *, is_change: bool) -> Answer:
        key = self._keys.session(session).head
        commands: list[Words] = [("SET", key, raw, "KEEPTTL")]
        if is_change:
            commands.append(("INCR", self._keys.changes))
        try:
            answer = self._server.transact([("value", key, expected)], commands)
        except StoreUnavailable:
            self._remembered.pop(session, None)
            raise
        self._moments.seen(answer.at_us)
        return answer

    # -- what was unknown -----------------------------------------------------------------------------------------

    def find_commit(self, session: str, key: bytes, after: int) -> Committed | None:
        """The step with this key after seq `after`. None is final: a request still on its way cannot get through."""
        with self.turn(session):
            for _ in range(MAX_TRIES):
                self._remembered.pop(session, None)
                stored = self._stored(session)
                step = self._reading.find_key(session, key, after, stored.head)
                if step is not None:
                    self._doubtful.discard(key)
                    return Committed(step=step, head=stored.head)
                if key not in self._doubtful:
                    return None
                raw = rows.head_bytes(stored.head)
                if not self._put(session, stored.raw, raw, is_change=False).failed:
                    self._doubtful.discard(key)
                    return None
        raise StoreUnavailable(f"{session}: others keep moving its head; it is not known what was written")

    # -- heads ----------------------------------------------------------------------------------------------------

    def _stored(self, session: str) -> Stored:
        return self._remembered.get(session) or self._fresh(session)

    def _fresh(self, session: str) -> Stored:
        raw, (seconds, micros) = self._server.ask_all([("GET", self._keys.session(session).head), ("TIME",)])
        self._moments.seen(int(seconds) * 1_000_000 + int(micros))
        return self._read(session, raw or b"")

    def _read(self, session: str, raw: bytes) -> Stored:
        head = rows.read_head(raw, session)
        if head is None:
            self._remembered.pop(session, None)
            if not raw and not self._server.ask("EXISTS", self._keys.session(session).identity):
                raise NotFound(session)
            raise Corrupt("its head fails its seal", session=session)
        epoch, seq = self._told.get(session, (-1, 0))
        if head.epoch == epoch and head.seq < seq:
            raise Corrupt(
                f"step {seq} was acknowledged, and the journal ends at {head.seq}: "
                "the server came back without what it had not yet written down",
                session=session,
            )
        return Stored(raw, head)

    def _remember(self, session: str, stored: Stored) -> None:
        if len(self._remembered) >= MAX_REMEMBERED:
            self._remembered.clear()
            self._told.clear()
        self._remembered[session] = stored
        self._told[session] = stored.head.epoch, stored.head.seq

    def forget(self, session: str) -> None:
        """It was deleted, or its head replaced: whatever was known of it counts no more."""
        self._remembered.pop(session, None)
        self._told.pop(session, None)
