"""Snapshots of workspaces as the store knows them: which step names which, and which segments may be relied on.

A row is in the session's own hash and in its pool's set. What a segment holds, nobody here knows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from relight.errors import Conflict, Corrupt, NotFound
from relight.ports.store import Seen
from relight.stores.redis import rows
from relight.stores.redis.keys import Keys, bytes_text, split_member, text_bytes
from relight.stores.redis.server import Server, Words
from relight.stores.redis.sessions import SCHEMA


class Snapshots:
    """Of one store. Stateless."""

    def __init__(self, server: Server, keys: Keys) -> None:
        self._server = server
        self._keys = keys

    def add_segment(self, pool: str, segment: str) -> None:
        """From now on it may be relied on."""
        words: list[Words] = [
            ("SADD", self._keys.segments(pool), rows.segment_row(pool, segment)),
            ("SADD", self._keys.pools, text_bytes(pool)),
            ("SETNX", self._keys.schema, SCHEMA),
        ]
        self._server.transact([], words)

    def segments(self, pool: str) -> frozenset[str]:
        """Those of a pool; Corrupt rather than one too few."""
        return frozenset(rows.read_segment(row) for row in self._server.ask("SMEMBERS", self._keys.segments(pool)))

    def remove_segments(self, pool: str, segments: Iterable[str]) -> None:
        """From now on they may not."""
        key = self._keys.segments(pool)
        words: list[Words] = [("SREM", key, rows.segment_row(pool, segment)) for segment in segments]
        if words:
            self._server.transact([], words)
            self.tidy([pool])

    def tidy(self, pools: Iterable[str]) -> None:
        """Forget the names of pools in which nothing is left."""
        for pool in pools:
            checks: list[Words] = [("gone", self._keys.segments(pool)), ("gone", self._keys.named(pool))]
            self._server.transact(checks, [("SREM", self._keys.pools, text_bytes(pool))])

    def of_pool(self, pool: str, without: Sequence[str]) -> frozenset[str]:
        """The snapshots in a pool that some step of another session than these names."""
        named = [rows.read_snapshot(row) for row in self._server.ask("SMEMBERS", self._keys.named(pool))]
        return frozenset(snapshot for session, _, _, _, snapshot in named if session not in without)

    def pools(self) -> frozenset[str]:
        """All with a segment or a snapshot."""
        known = self.names()
        there = self._server.ask_all([("EXISTS", self._keys.segments(one), self._keys.named(one)) for one in known])
        return frozenset(pool for pool, count in zip(known, there, strict=True) if count)

    def names(self) -> list[str]:
        """All pools that had one, until they are tidied away."""
        return [bytes_text(pool) for pool in self._server.ask("SMEMBERS", self._keys.pools)]

    def drop(self, session: str, seq: int, roots: Collection[str] | None, seen: Seen | None) -> int:
        """Let a checkpoint's snapshots go; how many there were. Conflict where the session is not as it was seen."""
        keys = self._keys.session(session)
        checks = self._as_seen(session, seen) if seen is not None else [("there", keys.head)]
        taken = [(row, rows.read_snapshot(row)) for row in self._server.ask("HKEYS", keys.snapshots)]
        going = [(row, pool) for row, (_, at, root, pool, _) in taken if at == seq and (roots is None or root in roots)]
        words: list[Words] = [("HDEL", keys.snapshots, row) for row, _ in going]
        words += [("SREM", self._keys.named(pool), row) for row, pool in going]
        answer = self._server.transact(checks, words, results=True)
        if answer.failed and seen is not None:
            raise Conflict(f"{session}: it was written to or forked meanwhile")
        if answer.failed:
            raise NotFound(session)
        self.tidy({pool for _, pool in going})
        return sum(answer.results[: len(going)])

    def _as_seen(self, session: str, seen: Seen) -> list[Words]:
        """Checks that it is as it was seen, or Conflict now."""
        keys, index = self._keys.session(session), self._keys.by("parent", session)
        raw, members = self._server.ask_all([("GET", keys.head), ("ZRANGE", index, 0, -1)])
        if raw is None:
            raise NotFound(session)
        head = rows.read_head(raw, session)
        if head is None:
            raise Corrupt("its head fails its seal", session=session)
        if (head.seq, frozenset(split_member(member)[1] for member in members)) != (seen.seq, seen.forks):
            raise Conflict(f"{session}: it was written to or forked meanwhile")
        return [("value", keys.head, raw), ("within", index, *members)]
