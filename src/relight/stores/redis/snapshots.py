"""Which step references which workspace snapshot, and which segments of a pool exist.

A row is in the session's own hash and in its pool's set.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from relight.errors import Conflict, Corrupt, NotFound
from relight.ports.store import Seen
from relight.stores.redis import rows
from relight.stores.redis.keys import Keys, bytes_text, split_member, text_bytes
from relight.stores.redis.server import Command, Server
from relight.stores.redis.sessions import SCHEMA


class Snapshots:
    """Snapshots and segments of one store. Stateless."""

    def __init__(self, server: Server, keys: Keys) -> None:
        self._server = server
        self._keys = keys

    def add_segment(self, pool: str, segment: str) -> None:
        """Register a segment, so that steps may reference it."""
        commands: list[Command] = [
            ("SADD", self._keys.segments(pool), rows.segment_row(pool, segment)),
            ("SADD", self._keys.pools, text_bytes(pool)),
            ("SETNX", self._keys.schema, SCHEMA),
        ]
        self._server.transact([], commands)

    def segments(self, pool: str) -> frozenset[str]:
        """The segments of a pool; Corrupt rather than an incomplete answer."""
        return frozenset(rows.read_segment(row) for row in self._server.execute("SMEMBERS", self._keys.segments(pool)))

    def remove_segments(self, pool: str, segments: Iterable[str]) -> None:
        """Unregister segments before they are swept."""
        key = self._keys.segments(pool)
        commands: list[Command] = [("SREM", key, rows.segment_row(pool, segment)) for segment in segments]
        if commands:
            self._server.transact([], commands)
            self.tidy([pool])

    def tidy(self, pools: Iterable[str]) -> None:
        """Remove the names of empty pools."""
        for pool in pools:
            checks: list[Command] = [("gone", self._keys.segments(pool)), ("gone", self._keys.named(pool))]
            self._server.transact(checks, [("SREM", self._keys.pools, text_bytes(pool))])

    def of_pool(self, pool: str, without: Sequence[str]) -> frozenset[str]:
        """Snapshots in a pool that sessions other than `without` reference."""
        named = [rows.read_snapshot(row) for row in self._server.execute("SMEMBERS", self._keys.named(pool))]
        return frozenset(snapshot for session, _, _, _, snapshot in named if session not in without)

    def pools(self) -> frozenset[str]:
        """All pools that have a segment or a snapshot."""
        known = self.names()
        there = self._server.execute_all([("EXISTS", self._keys.segments(one), self._keys.named(one)) for one in known])
        return frozenset(pool for pool, count in zip(known, there, strict=True) if count)

    def names(self) -> list[str]:
        """All pools that ever had one, until they are tidied."""
        return [bytes_text(pool) for pool in self._server.execute("SMEMBERS", self._keys.pools)]

    def drop(self, session: str, seq: int, roots: Collection[str] | None, seen: Seen | None) -> int:
        """Delete a checkpoint's snapshots; returns how many there were. Conflict if the session is not as `seen`."""
        keys = self._keys.session(session)
        checks = self._as_seen(session, seen) if seen is not None else [("there", keys.head)]
        taken = [(row, rows.read_snapshot(row)) for row in self._server.execute("HKEYS", keys.snapshots)]
        going = [(row, pool) for row, (_, at, root, pool, _) in taken if at == seq and (roots is None or root in roots)]
        commands: list[Command] = [("HDEL", keys.snapshots, row) for row, _ in going]
        commands += [("SREM", self._keys.named(pool), row) for row, pool in going]
        reply = self._server.transact(checks, commands, results=True)
        if reply.failed and seen is not None:
            raise Conflict(f"{session}: it was written to or forked meanwhile")
        if reply.failed:
            raise NotFound(session)
        self.tidy({pool for _, pool in going})
        return sum(reply.results[: len(going)])

    def _as_seen(self, session: str, seen: Seen) -> list[Command]:
        """Checks that the session is as `seen`; Conflict if it already is not."""
        keys, index = self._keys.session(session), self._keys.by("parent", session)
        raw, members = self._server.execute_all([("GET", keys.head), ("ZRANGE", index, 0, -1)])
        if raw is None:
            raise NotFound(session)
        head = rows.read_head(raw, session)
        if head is None:
            raise Corrupt("its head fails its seal", session=session)
        if (head.seq, frozenset(split_member(member)[1] for member in members)) != (seen.seq, seen.forks):
            raise Conflict(f"{session}: it was written to or forked meanwhile")
        return [("value", keys.head, raw), ("within", index, *members)]
