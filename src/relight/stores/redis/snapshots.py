"""Snapshots of workspaces as the store knows them: which step names which, and which segments may be relied on.

A row is in the session's own hash and in its pool's set. What a segment holds, nobody here knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from relight.errors import NotFound
from relight.stores.redis import rows
from relight.stores.redis.keys import Keys, bytes_text, text_bytes
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

    def drop(self, session: str, seq: int) -> int:
        """Let a checkpoint's snapshots go; how many there were."""
        keys = self._keys.session(session)
        taken = [(row, rows.read_snapshot(row)) for row in self._server.ask("HKEYS", keys.snapshots)]
        going = [(row, pool) for row, (_, at, _, pool, _) in taken if at == seq]
        words: list[Words] = [("HDEL", keys.snapshots, row) for row, _ in going]
        words += [("SREM", self._keys.named(pool), row) for row, pool in going]
        answer = self._server.transact([("there", keys.head)], words, results=True)
        if answer.failed:
            raise NotFound(session)
        self.tidy({pool for _, pool in going})
        return sum(answer.results[: len(going)])
