"""Lines of queued sessions, and the small records beside them: commands for somebody else's transaction, and first
places that cost the same however many stand behind them.

A member of a line is its priority, turned round so that the greater comes first, the time it stands there since, and
its id: a line is a sorted set of equal scores, in exactly the order in which its sessions are to be taken. Those with a
time to wake are in a set of their own, by that time.
"""

from __future__ import annotations

from typing import Any, Final

from relight.journal.queues.order import QueueRow, first_rows, format_queue_key, parse_queue_key
from relight.journal.queues.slots import plan_slot, slot_wanted
from relight.journal.queues.small_records import RecordKind
from relight.stores.redis import rows
from relight.stores.redis.keys import Keys, SessionKeys, bytes_text, member_of, split_member, text_bytes, time_bytes
from relight.stores.redis.server import Server, Words
from relight.values.lease import Instant
from relight.values.queues import QueueKey
from relight.values.session import Head
from relight.values.step import Draft

_RANK_BYTES: Final = 8


class Lines:
    """Of one store. Stateless."""

    def __init__(self, server: Server, keys: Keys) -> None:
        self._server = server
        self._keys = keys

    def move_words(self, keys: SessionKeys, before: QueueRow | None, after: QueueRow | None) -> list[Words]:
        """Commands that take a session out of its line, into one, or to another place."""
        if before == after:
            return []
        words: list[Words] = []
        if before is not None:
            words.append(("ZREM", self._set_of(before), _member(before)))
            words.append(("HDEL", keys.facts, "l", "w"))
        if after is not None:
            line, place, member = text_bytes(format_queue_key(after.line)), self._set_of(after), _member(after)
            words.append(("SADD", self._keys.lines, line))
            words.append(("ZADD", place, after.wake_us or 0, member))
            words.append(("HSET", keys.facts, "l", place, "w", member))
        return words

    def leave_words(self, keys: SessionKeys) -> list[Words]:
        """The same, out of it, by what the session itself knows of it: its head may not be readable."""
        place, member = self._server.ask("HMGET", keys.facts, "l", "w")
        return [("ZREM", place, member)] if place is not None else []

    def _set_of(self, row: QueueRow) -> bytes:
        line = text_bytes(format_queue_key(row.line))
        return self._keys.ready(line) if row.wake_us is None else self._keys.later(line)

    def stands(self, row: QueueRow) -> bool:
        """Is it where it should be?"""
        return self._server.ask("ZSCORE", self._set_of(row), _member(row)) is not None

    def all_lines(self) -> list[QueueKey]:
        """Those in which somebody stands."""
        known = sorted(self._server.ask("SMEMBERS", self._keys.lines))
        asked = [("ZCARD", place) for one in known for place in (self._keys.ready(one), self._keys.later(one))]
        sizes = self._server.ask_all(asked) if asked else []
        return sorted(
            parse_queue_key(bytes_text(one)) for n, one in enumerate(known) if sizes[2 * n] or sizes[2 * n + 1]
        )

    def first(self, line: QueueKey, limit: int, now_us: int | None) -> list[QueueRow]:
        """The first of a line whose time has come, by the server's time or by this one."""
        key = text_bytes(format_queue_key(line))
        if limit < 1:
            return []
        at_us = self._server.time_us() if now_us is None else now_us
        ready, later = self._server.ask_all(
            [
                ("ZRANGE", self._keys.ready(key), 0, limit - 1),
                ("ZRANGEBYSCORE", self._keys.later(key), "-inf", at_us, "WITHSCORES", "LIMIT", 0, limit),
            ]
        )
        pairs = [(one, None) for one in ready] + [(one, int(float(score))) for one, score in _pairs(later)]
        return first_rows((_waiting(line, member, wake_us) for member, wake_us in pairs), limit)

    # -- small records ------------------------------------------------------------------------------------------------

    def slot_words(self, head: Head, draft: Draft, now: Instant) -> tuple[list[Words], list[Words]]:
        """Checks and commands that take a slot with a claim; none where it takes none. Or QueueFull."""
        queue = slot_wanted(head, draft)
        if queue is None:
            return [], []
        name, slots = text_bytes(queue), self._keys.kept("slots")
        limits, before = self._server.ask_all([("HGET", self._keys.kept("queue"), name), ("HGET", slots, name)])
        record = plan_slot(limits, lambda: before, self._head_of, session=head.session, now=now)
        if record is None:
            return [], []
        return [("field", slots, name, before or b"")], [("HSET", slots, name, record)]

    def _head_of(self, session: str) -> Head | None:
        return rows.read_head(self._server.ask("GET", self._keys.session(session).head), session)

    def put_record(self, kind: RecordKind, name: str, record: bytes | None) -> None:
        """Write one, or remove it."""
        key, field = self._keys.kept(kind), text_bytes(name)
        command: Words = ("HDEL", key, field) if record is None else ("HSET", key, field, record)
        self._server.transact([], [command])

    def exchange_record(self, kind: RecordKind, name: str, before: bytes | None, record: bytes) -> bool:
        """Write one where the present one is `before`."""
        key, field = self._keys.kept(kind), text_bytes(name)
        return not self._server.transact([("field", key, field, before or b"")], [("HSET", key, field, record)]).failed

    def list_records(self, kind: RecordKind) -> dict[str, bytes]:
        """All of a kind, by name."""
        found = self._server.ask("HGETALL", self._keys.kept(kind))
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
