"""Expiry of finished sessions: seven days after their end, or as the retention policy says, by the server's clock.

    finishing       the transaction sets a TTL on every key with content; no sweep is needed
    continuing      a claim or a fork removes the TTL again, in its own transaction
    afterwards      index entries, the name, and pool references have no TTL: without them the session could not be
                    removed from the indexes. A few are tidied with every session that is created or finished, with a
                    tombstone in the same transaction; until then a lookup through them finds nothing, counts subtract
                    them, and their expiry time shows that they expired.

A session that a fork reads from does not expire; it gets its TTL when the last fork is gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from relight.journal.queues.small_records import pack_record, unpack_record
from relight.stores.redis import rows
from relight.stores.redis.keys import Keys, SessionKeys, bytes_text, text_bytes
from relight.stores.redis.server import Command, Server
from relight.values.policy import DAY, StoredPolicy
from relight.values.session import Head
from relight.values.status import FINISHED, Status
from relight.values.tombstone import MAX_TOMBSTONES, Tombstone, digest_of

DEFAULT_DAYS: Final = 7.0
MAX_TIDIED: Final = 16
"""expired sessions that one write tidies"""
_POLICY: Final = "retention"
_BY: Final = "expiry by the server"
_MAX_ATTEMPTS: Final = 3
_BATCH: Final = 500
_FOREVER_MS: Final = 1 << 53


def content_keys(keys: SessionKeys) -> tuple[bytes, ...]:
    """The keys that hold a session's content."""
    return keys.identity, keys.head, keys.steps, keys.labels


class Expiry:
    """TTLs of one store's sessions. Stateless."""

    def __init__(self, server: Server, keys: Keys) -> None:
        self._server = server
        self._keys = keys

    def days(self) -> float | None:
        """How long finished sessions are kept; None: without limit, by policy."""
        record = self._server.execute("HGET", self._keys.records("policy"), _POLICY)
        policy = unpack_record(record, StoredPolicy) if record is not None else None
        return DEFAULT_DAYS if policy is None else policy.finished_days

    # -- within the caller's transaction ----------------------------------------------------------------------------

    def step_commands(self, keys: SessionKeys, before: Head, after: Head) -> tuple[list[Command], list[Command]]:
        """Checks and commands of a step: set the TTL if it finishes the session, remove it if the session continues."""
        if after.status not in FINISHED:
            return [], self.persist_commands(after.session) if before.status in FINISHED else []
        if after.status == before.status:
            at_ms = self.deadline_ms(after.session)
            return [], [] if at_ms is None else [("PEXPIREAT", key, at_ms) for key in content_keys(keys)]
        days = self.days()
        forks = self._keys.by("parent", after.session)
        if days is None or self._server.execute("ZCARD", forks):
            return [], self.persist_commands(after.session)
        return [("within", forks)], self._expire_commands(after, self._after_ms(days))

    def persist_commands(self, session: str) -> list[Command]:
        """Commands that remove the TTL, because the session continues or a fork needs it."""
        keys, id_ = self._keys.session(session), text_bytes(session)
        commands: list[Command] = [("ZREM", index, id_) for index in self._keys.expiring.values()]
        return commands + [("PERSIST", key) for key in content_keys(keys)]

    def _expire_commands(self, head: Head, at_ms: int) -> list[Command]:
        keys, id_ = self._keys.session(head.session), text_bytes(head.session)
        commands: list[Command] = [("ZADD", self._keys.expiring[head.status], at_ms, id_)]
        commands += [("ZREM", index, id_) for status, index in self._keys.expiring.items() if status != head.status]
        commands.append(("HSET", keys.facts, "z", head.size_bytes))
        return commands + [("PEXPIREAT", key, at_ms) for key in content_keys(keys)]

    def _after_ms(self, days: float) -> int:
        return min(self._server.time_us() // 1000 + round(days * DAY * 1000), _FOREVER_MS)

    def deadline_ms(self, session: str) -> int | None:
        """When the session expires; None if it does not."""
        found = self._server.execute_all(
            [("ZSCORE", index, text_bytes(session)) for index in self._keys.expiring.values()]
        )
        times = [int(float(one)) for one in found if one is not None]
        return max(times, default=None)

    # -- expired sessions ---------------------------------------------------------------------------------------------

    def count_expired(self) -> dict[Status, int]:
        """Number of expired sessions that are still in the indexes, by status."""
        now_ms = self._server.time_us() // 1000
        asked: list[Command] = [("ZCOUNT", index, "-inf", now_ms) for index in self._keys.expiring.values()]
        return dict(zip(self._keys.expiring, self._server.execute_all(asked), strict=True))

    def is_expired(self, session: str) -> bool:
        """True if it has expired and is still in the indexes."""
        gone = not self._server.execute("EXISTS", self._keys.session(session).identity)
        return gone and self.deadline_ms(session) is not None

    def tombstone(self, session: str) -> Tombstone | None:
        """The tombstone of a session that has expired and is still in the indexes; None for all others."""
        at_ms = self.deadline_ms(session)
        if at_ms is None or self._server.execute("EXISTS", self._keys.session(session).identity):
            return None
        days = self.days()
        return Tombstone(
            at_us=at_ms * 1000,
            digests=[digest_of(session)],
            by=_BY,
            finished_days=DEFAULT_DAYS if days is None else days,
            sessions=[session],
        )

    def _forget_oldest(self) -> None:
        """Keep as many tombstones as a sweep would."""
        key = self._keys.records("tombstone")
        if self._server.execute("HLEN", key) > MAX_TOMBSTONES + MAX_TIDIED:
            names = sorted(self._server.execute("HKEYS", key))
            self._server.transact([], [("HDEL", key, *names[: len(names) - MAX_TOMBSTONES])])

    def tidy(self, sessions: Sequence[str] | None = None) -> None:
        """Remove expired sessions from the indexes: these, or some of all."""
        if sessions is None:
            now_ms = self._server.time_us() // 1000
            asked: list[Command] = [
                ("ZRANGEBYSCORE", index, "-inf", now_ms, "LIMIT", 0, MAX_TIDIED)
                for index in self._keys.expiring.values()
            ]
            sessions = [bytes_text(one) for found in self._server.execute_all(asked) for one in found]
        for session in sessions:
            for _ in range(_MAX_ATTEMPTS):
                checks, commands = self._leftover_commands(session)
                if not self._server.transact(checks, commands).failed:
                    break
        if sessions:
            self._forget_oldest()

    def _leftover_commands(self, session: str) -> tuple[list[Command], list[Command]]:
        keys, id_ = self._keys.session(session), text_bytes(session)
        (member, name, size), indexes, snapshots = self._server.execute_all(
            [("HMGET", keys.facts, "m", "n", "z"), ("SMEMBERS", keys.indexes), ("HGETALL", keys.snapshots)]
        )
        flat = iter(snapshots)
        pairs = snapshots.items() if isinstance(snapshots, dict) else list(zip(flat, flat, strict=True))
        every = [*indexes, *self._keys.statuses.values()]
        commands: list[Command] = [("ZREM", index, member or b"") for index in every]
        commands += [("SREM", pool, row) for row, pool in pairs]
        commands += [("ZREM", self._keys.ids, id_), ("DECRBY", self._keys.size, int(size or 0))]
        commands += [("HDEL", self._keys.names, name)] if name is not None else []
        commands += [("ZREM", index, id_) for index in self._keys.expiring.values()]
        commands += [("UNLINK", *(getattr(keys, field) for field in keys.__struct_fields__))]
        more_checks, more = self._parent_commands(indexes, member or b"")
        made = self.tombstone(session)
        tombstones: list[Command] = []
        if made is not None:
            tombstone_name = made.name(self._server.time_us())
            tombstones.append(("HSET", self._keys.records("tombstone"), tombstone_name, pack_record(made)))
        # Another process may tidy the same session between our reading and this transaction, which subtracts its size:
        # the size must still be there, so that it is subtracted once. Read again, there is nothing left to subtract.
        checks: list[Command] = [("gone", keys.identity), ("field", keys.facts, "z", size or b""), *more_checks]
        # What needs memory comes first: a full server refuses it before anything was written.
        return checks, [("INCR", self._keys.changes), *tombstones, *more, *commands]

    def _parent_commands(self, indexes: Sequence[bytes], member: bytes) -> tuple[list[Command], list[Command]]:
        """If it was the last fork of a finished session, that session gets its TTL now."""
        lead = self._keys.by("parent", "")
        parent = next((bytes_text(one[len(lead) :]) for one in indexes if one.startswith(lead)), None)
        days = self.days() if parent is not None else None
        if parent is None or days is None:
            return [], []
        keys, forks = self._keys.session(parent), self._keys.by("parent", parent)
        raw, others = self._server.execute_all([("GET", keys.head), ("ZRANGE", forks, 0, 1)])
        head = rows.read_head(raw, parent)
        if head is None or head.status not in FINISHED or set(others) - {member}:
            return [], []
        checks: list[Command] = [("value", keys.head, raw), ("within", forks, member)]
        return checks, self._expire_commands(head, self._after_ms(days))

    # -- the policy ---------------------------------------------------------------------------------------------------

    def apply(self, days: float | None) -> None:
        """Apply a policy: every finished session gets its TTL, counted from now; None removes them all."""
        for status in self._keys.expiring:
            members, start = self._server.execute("ZRANGE", self._keys.statuses[status], 0, -1), 0
            while start < len(members):
                for member in members[start : start + _BATCH]:
                    self._apply(bytes_text(member[8:]), days)
                start += _BATCH

    def _apply(self, session: str, days: float | None) -> None:
        keys, forks = self._keys.session(session), self._keys.by("parent", session)
        raw, many = self._server.execute_all([("GET", keys.head), ("ZCARD", forks)])
        head = rows.read_head(raw, session)
        if raw is None or head is None or head.status not in FINISHED:
            return
        ends = days is not None and not many
        commands = self._expire_commands(head, self._after_ms(days or 0.0)) if ends else self.persist_commands(session)
        checks: list[Command] = [("value", keys.head, raw), *([("within", forks)] if ends else [])]
        self._server.transact(checks, commands)  # if its head moved meanwhile, that commit has set the TTL
