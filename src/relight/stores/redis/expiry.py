"""Finished sessions expire: seven days after their end, or as the store's policy says, by the server's own clock.

    the verdict     its transaction gives every key with content a time to end; nobody has to sweep
    going on        the claim, and a fork of it, takes that away again, in their own transactions
    afterwards      what only leads to it (indexes, its name, which pools its snapshots are in) has no time of its own:
                    without it nobody could take the session out of the indexes. It goes with the next session that
                    begins or ends, a few at a time, and a tombstone is written in the same transaction. Until then
                    whoever looks finds nothing there, and counts less; the time that it had tells that it expired.

A session that a fork reads from does not expire; it gets its time when the last fork is gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from relight.journal.queues.small_records import pack_record, unpack_record
from relight.stores.redis import rows
from relight.stores.redis.keys import Keys, SessionKeys, bytes_text, text_bytes
from relight.stores.redis.server import Server, Words
from relight.values.policy import DAY, StoredPolicy
from relight.values.session import Head
from relight.values.status import FINISHED, Status
from relight.values.tombstone import MAX_TOMBSTONES, Tombstone, digest_of

DEFAULT_DAYS: Final = 7.0
AT_ONCE: Final = 16
"""expired sessions of which a write takes the rest away"""
_POLICY: Final = "retention"
_BY: Final = "expiry by the server"
_TRIES: Final = 3
_BATCH: Final = 500
_FOREVER_MS: Final = 1 << 53


def content(keys: SessionKeys) -> tuple[bytes, ...]:
    """The keys that hold what a session is and said."""
    return keys.identity, keys.head, keys.steps, keys.labels


class Expiry:
    """Of one store. Stateless."""

    def __init__(self, server: Server, keys: Keys) -> None:
        self._server = server
        self._keys = keys

    def days(self) -> float | None:
        """How long a finished session is kept; None: for ever, because somebody said so."""
        record = self._server.ask("HGET", self._keys.kept("policy"), _POLICY)
        policy = unpack_record(record, StoredPolicy) if record is not None else None
        return DEFAULT_DAYS if policy is None else policy.finished_days

    # -- within somebody else's transaction -------------------------------------------------------------------------

    def words(self, keys: SessionKeys, before: Head, after: Head) -> tuple[list[Words], list[Words]]:
        """Checks and commands that go with a step: a time for one that is finished by it, none for one that goes on."""
        if after.status not in FINISHED:
            return [], self.keep_words(after.session) if before.status in FINISHED else []
        if after.status == before.status:
            at_ms = self.deadline_ms(after.session)
            return [], [] if at_ms is None else [("PEXPIREAT", key, at_ms) for key in content(keys)]
        days = self.days()
        forks = self._keys.by("parent", after.session)
        if days is None or self._server.ask("ZCARD", forks):
            return [], self.keep_words(after.session)
        return [("within", forks)], self._end_words(after, self._after_ms(days))

    def keep_words(self, session: str) -> list[Words]:
        """It goes on, or is needed: no time any more."""
        keys, id_ = self._keys.session(session), text_bytes(session)
        words: list[Words] = [("ZREM", index, id_) for index in self._keys.expiring.values()]
        return words + [("PERSIST", key) for key in content(keys)]

    def _end_words(self, head: Head, at_ms: int) -> list[Words]:
        keys, id_ = self._keys.session(head.session), text_bytes(head.session)
        words: list[Words] = [("ZADD", self._keys.expiring[head.status], at_ms, id_)]
        words += [("ZREM", index, id_) for status, index in self._keys.expiring.items() if status != head.status]
        words.append(("HSET", keys.facts, "z", head.size_bytes))
        return words + [("PEXPIREAT", key, at_ms) for key in content(keys)]

    def _after_ms(self, days: float) -> int:
        return min(self._server.time_us() // 1000 + round(days * DAY * 1000), _FOREVER_MS)

    def deadline_ms(self, session: str) -> int | None:
        """When it ends; None where it has no time."""
        found = self._server.ask_all([("ZSCORE", index, text_bytes(session)) for index in self._keys.expiring.values()])
        times = [int(float(one)) for one in found if one is not None]
        return max(times, default=None)

    # -- what is over ---------------------------------------------------------------------------------------------

    def over(self) -> dict[Status, int]:
        """How many have expired of which the indexes still know, by status."""
        now_ms = self._server.time_us() // 1000
        asked: list[Words] = [("ZCOUNT", index, "-inf", now_ms) for index in self._keys.expiring.values()]
        return dict(zip(self._keys.expiring, self._server.ask_all(asked), strict=True))

    def is_over(self, session: str) -> bool:
        """Has it expired, and do indexes still know of it?"""
        gone = not self._server.ask("EXISTS", self._keys.session(session).identity)
        return gone and self.deadline_ms(session) is not None

    def tombstone(self, session: str) -> Tombstone | None:
        """Of one that has expired while indexes still know of it; of the others a tombstone is kept, or nothing."""
        at_ms = self.deadline_ms(session)
        if at_ms is None or self._server.ask("EXISTS", self._keys.session(session).identity):
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
        """As many tombstones as a sweep would leave."""
        key = self._keys.kept("tombstone")
        if self._server.ask("HLEN", key) > MAX_TOMBSTONES + AT_ONCE:
            names = sorted(self._server.ask("HKEYS", key))
            self._server.transact([], [("HDEL", key, *names[: len(names) - MAX_TOMBSTONES])])

    def tidy(self, sessions: Sequence[str] | None = None) -> None:
        """Take what is left of expired sessions out of the indexes: these, or some of those that are over."""
        if sessions is None:
            now_ms = self._server.time_us() // 1000
            asked: list[Words] = [
                ("ZRANGEBYSCORE", index, "-inf", now_ms, "LIMIT", 0, AT_ONCE) for index in self._keys.expiring.values()
            ]
            sessions = [bytes_text(one) for found in self._server.ask_all(asked) for one in found]
        for session in sessions:
            for _ in range(_TRIES):
                checks, commands = self._rest_words(session)
                if not self._server.transact(checks, commands).failed:
                    break
        if sessions:
            self._forget_oldest()

    def _rest_words(self, session: str) -> tuple[list[Words], list[Words]]:
        keys, id_ = self._keys.session(session), text_bytes(session)
        (member, name, size), indexes, snapshots = self._server.ask_all(
            [("HMGET", keys.facts, "m", "n", "z"), ("SMEMBERS", keys.indexes), ("HGETALL", keys.snapshots)]
        )
        flat = iter(snapshots)
        pairs = snapshots.items() if isinstance(snapshots, dict) else list(zip(flat, flat, strict=True))
        every = [*indexes, *self._keys.statuses.values()]
        commands: list[Words] = [("ZREM", index, member or b"") for index in every]
        commands += [("SREM", pool, row) for row, pool in pairs]
        commands += [("ZREM", self._keys.ids, id_), ("DECRBY", self._keys.size, int(size or 0))]
        commands += [("HDEL", self._keys.names, name)] if name is not None else []
        commands += [("ZREM", index, id_) for index in self._keys.expiring.values()]
        commands += [("UNLINK", *(getattr(keys, field) for field in keys.__struct_fields__))]
        more_checks, more = self._parent_words(indexes, member or b"")
        made = self.tombstone(session)
        kept: list[Words] = []
        if made is not None:
            kept.append(("HSET", self._keys.kept("tombstone"), made.name(self._server.time_us()), pack_record(made)))
        # What needs room stands first: a full server refuses it before anything was written.
        return [("gone", keys.identity), *more_checks], [("INCR", self._keys.changes), *kept, *more, *commands]

    def _parent_words(self, indexes: Sequence[bytes], member: bytes) -> tuple[list[Words], list[Words]]:
        """Where it was the last fork of a finished session, that one gets its time now."""
        lead = self._keys.by("parent", "")
        parent = next((bytes_text(one[len(lead) :]) for one in indexes if one.startswith(lead)), None)
        days = self.days() if parent is not None else None
        if parent is None or days is None:
            return [], []
        keys, forks = self._keys.session(parent), self._keys.by("parent", parent)
        raw, others = self._server.ask_all([("GET", keys.head), ("ZRANGE", forks, 0, 1)])
        head = rows.read_head(raw, parent)
        if head is None or head.status not in FINISHED or set(others) - {member}:
            return [], []
        checks: list[Words] = [("value", keys.head, raw), ("within", forks, member)]
        return checks, self._end_words(head, self._after_ms(days))

    # -- the policy ---------------------------------------------------------------------------------------------------

    def apply(self, days: float | None) -> None:
        """Another policy: every finished session gets its time by it, counted from now; None: no session has one."""
        for status in self._keys.expiring:
            members, place = self._server.ask("ZRANGE", self._keys.statuses[status], 0, -1), 0
            while place < len(members):
                for member in members[place : place + _BATCH]:
                    self._apply(bytes_text(member[8:]), days)
                place += _BATCH

    def _apply(self, session: str, days: float | None) -> None:
        keys, forks = self._keys.session(session), self._keys.by("parent", session)
        raw, many = self._server.ask_all([("GET", keys.head), ("ZCARD", forks)])
        head = rows.read_head(raw, session)
        if raw is None or head is None or head.status not in FINISHED:
            return
        ends = days is not None and not many
        words = self._end_words(head, self._after_ms(days or 0.0)) if ends else self.keep_words(session)
        checks: list[Words] = [("value", keys.head, raw), *([("within", forks)] if ends else [])]
        self._server.transact(checks, words)  # where it moved meanwhile its own commit does it
