"""Queues of sessions, and small records (policies, slots, workers): commands for the caller's transaction.

A member of a queue is its negated priority, the time it was queued, and its id: a queue is a sorted set of equal
scores, in exactly the order in which its sessions are to be taken, so the first cost the same however many wait behind
them. Sessions with a due time are in a second set, by that time.
"""

from __future__ import annotations

from typing import Any, Final

from relight.journal.queues.order import QueueRow, first_rows, format_queue_key, parse_queue_key
from relight.journal.queues.slots import plan_slot, slot_wanted
from relight.journal.queues.small_records import RecordKind
from relight.stores.redis import rows
from relight.stores.redis.keys import Keys, SessionKeys, bytes_text, member_of, split_member, text_bytes, time_bytes
from relight.stores.redis.server import Command, Server
from relight.values.lease import Instant
from relight.values.queues import QueueKey
from relight.values.session import Head
from relight.values.step import Draft

_RANK_BYTES: Final = 8


class Queues:
    """The queues of one store. Stateless."""

    def __init__(self, server: Server, keys: Keys) -> None:
        self._server = server
        self._keys = keys

    def move_commands(self, keys: SessionKeys, before: QueueRow | None, after: QueueRow | None) -> list[Command]:
        """Commands that insert, move or remove a session's queue position."""
        if before == after:
            return []
        commands: list[Command] = []
        if before is not None:
            commands.append(("ZREM", self._set_of(before), _member(before)))
            commands.append(("HDEL", keys.facts, "l", "w"))
        if after is not None:
            line, queue_set, member = text_bytes(format_queue_key(after.line)), self._set_of(after), _member(after)
            commands.append(("SADD", self._keys.queues, line))
            commands.append(("ZADD", queue_set, after.wake_us or 0, member))
            commands.append(("HSET", keys.facts, "l", queue_set, "w", member))
        return commands

    def leave_commands(self, keys: SessionKeys) -> list[Command]:
        """Commands that remove it by the session's own facts: its head may not be readable."""
        queue_set, member = self._server.execute("HMGET", keys.facts, "l", "w")
        return [("ZREM", queue_set, member)] if queue_set is not None else []

    def _set_of(self, row: QueueRow) -> bytes:
        line = text_bytes(format_queue_key(row.line))
        return self._keys.ready(line) if row.wake_us is None else self._keys.later(line)

    def has_position(self, row: QueueRow) -> bool:
        """True if the queue has this position."""
        return self._server.execute("ZSCORE", self._set_of(row), _member(row)) is not None

    def list_queues(self) -> list[QueueKey]:
        """All queues that are not empty."""
        known = sorted(self._server.execute("SMEMBERS", self._keys.queues))
        asked = [("ZCARD", queue_set) for one in known for queue_set in (self._keys.ready(one), self._keys.later(one))]
        sizes = self._server.execute_all(asked) if asked else []
        return sorted(
            parse_queue_key(bytes_text(one)) for n, one in enumerate(known) if sizes[2 * n] or sizes[2 * n + 1]
        )

    def list_first(self, line: QueueKey, limit: int, now_us: int | None) -> list[QueueRow]:
        """The first of a queue that are due, by the server's time or by `now_us`."""
        key = text_bytes(format_queue_key(line))
        if limit < 1:
            return []
        at_us = self._server.time_us() if now_us is None else now_us
        ready, later = self._server.execute_all(
            [
                ("ZRANGE", self._keys.ready(key), 0, limit - 1),
                ("ZRANGEBYSCORE", self._keys.later(key), "-inf", at_us, "WITHSCORES", "LIMIT", 0, limit),
            ]
        )
        pairs = [(one, None) for one in ready] + [(one, int(float(score))) for one, score in _pairs(later)]
        return first_rows((_waiting(line, member, wake_us) for member, wake_us in pairs), limit)

    # -- small records ------------------------------------------------------------------------------------------------

    def slot_commands(self, head: Head, draft: Draft, now: Instant) -> tuple[list[Command], list[Command]]:
        """Checks and commands that take a slot with a claim; none if the claim needs no slot. Or QueueFull."""
        queue = slot_wanted(head, draft)
        if queue is None:
            return [], []
        name, slots = text_bytes(queue), self._keys.records("slots")
        limits, before = self._server.execute_all([("HGET", self._keys.records("queue"), name), ("HGET", slots, name)])
        record = plan_slot(limits, lambda: before, self._head_of, session=head.session, now=now)
        if record is None:
            return [], []
        return [("field", slots, name, before or b"")], [("HSET", slots, name, record)]

    def _head_of(self, session: str) -> Head | None:
        return rows.read_head(self._server.execute("GET", self._keys.session(session).head), session)

    def put_record(self, kind: RecordKind, name: str, record: bytes | None) -> None:
        """Write a record, or delete it if `record` is None."""
        key, field = self._keys.records(kind), text_bytes(name)
        command: Command = ("HDEL", key, field) if record is None else ("HSET", key, field, record)
        self._server.transact([], [command])

    def exchange_record(self, kind: RecordKind, name: str, before: bytes | None, record: bytes) -> bool:
        """Write a record if the present one is `before`."""
        key, field = self._keys.records(kind), text_bytes(name)
        return not self._server.transact([("field", key, field, before or b"")], [("HSET", key, field, record)]).failed

    def list_records(self, kind: RecordKind) -> dict[str, bytes]:
        """All records of a kind, by name."""
        found = self._server.execute("HGETALL", self._keys.records(kind))
        pairs = found.items() if isinstance(found, dict) else _pairs(found)
        return {bytes_text(name): record for name, record in sorted(pairs)}


def _member(row: QueueRow) -> bytes:
    return time_bytes(-row.priority) + member_of(row.since_us, row.session)


def _waiting(line: QueueKey, member: bytes, wake_us: int | None) -> QueueRow:
    priority = -(int.from_bytes(member[:_RANK_BYTES], "big") - (1 << 63))
    since_us, session = split_member(member[_RANK_BYTES:])
    return QueueRow(line, priority, since_us, session, wake_us)


def _pairs(flat: list[Any]) -> list[tuple[bytes, bytes]]:
    """Members and scores, however the driver gives them."""
    if flat and isinstance(flat[0], tuple | list):
        return [(one, score) for one, score in flat]
    return list(zip(flat[::2], flat[1::2], strict=True))
