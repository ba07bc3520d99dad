"""The complete integrity check: every record, every row, and every index against the records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from relight.errors import Corrupt
from relight.journal.queues.order import queue_row_of
from relight.ports.store import Damage
from relight.stores.redis import rows
from relight.stores.redis.expiry import Expiry
from relight.stores.redis.keys import Keys, bytes_text, member_of, text_bytes
from relight.stores.redis.queues import Queues
from relight.stores.redis.server import Server
from relight.stores.redis.snapshots import Snapshots

BATCH: Final = 256


class Health:
    """Checks of one store. Stateless."""

    def __init__(self, server: Server, keys: Keys, snapshots: Snapshots) -> None:
        self._server = server
        self._keys = keys
        self._snapshots = snapshots

    def examine(self) -> Iterator[Damage]:
        """All damage found; the digest chain is checked by `history.verify`."""
        for pool in sorted(self._snapshots.pools()):
            try:
                self._snapshots.segments(pool)
                self._snapshots.of_pool(pool, ())
            except Corrupt as error:
                yield Damage(what=f"pool {pool}: {error.message}")
        sizes = self._server.execute_all(
            [("ZCARD", self._keys.ids), ("ZCARD", self._keys.all)]
            + [("ZCARD", index) for index in self._keys.statuses.values()]
        )
        if not sizes[0] == sizes[1] == sum(sizes[2:]):
            yield Damage(
                what=f"{sizes[0]} sessions by id, {sizes[1]} by time and {sum(sizes[2:])} by status: not the same"
            )
        for session in self._sessions():
            yield from self._examine(session)

    def _sessions(self) -> Iterator[str]:
        least = b"-"
        while batch := self._server.execute("ZRANGEBYLEX", self._keys.ids, least, "+", "LIMIT", 0, BATCH):
            yield from map(bytes_text, batch)
            least = b"(" + batch[-1]

    def _examine(self, session: str) -> Iterator[Damage]:
        keys = self._keys.session(session)
        (identity, raw), labels, taken, indexes, facts = self._server.execute_all(
            [
                ("MGET", keys.identity, keys.head),
                ("LRANGE", keys.labels, 0, -1),
                ("HKEYS", keys.snapshots),
                ("SMEMBERS", keys.indexes),
                ("HMGET", keys.facts, "m", "n"),
            ]
        )
        try:
            record = rows.read_record(session, identity, raw)
            for label in labels:
                rows.read_label(session, label)
            for row in taken:
                rows.read_snapshot(row)
        except Corrupt as error:
            yield Damage(what=error.message)
            return
        if record is None:  # deleted since the index was read, or lost
            listed = self._server.execute("ZSCORE", self._keys.ids, text_bytes(session)) is not None
            if listed and not Expiry(self._server, self._keys).is_expired(session):
                yield Damage(what=f"{session}: it is listed, and there is no record of it")
            return
        if record.head is None:
            yield Damage(what=f"{session}: its head cannot be read")
            return
        member = member_of(record.identity.created_us, session)
        name = None if record.identity.name is None else text_bytes(record.identity.name)
        wanted = [*self._keys.indexes_of(record.identity), self._keys.statuses[record.head.status]]
        found = self._server.execute_all([("ZSCORE", index, member) for index in wanted])
        agrees = None not in found and set(indexes) == set(wanted[:-1]) and list(facts) == [member, name]
        if not agrees and self._server.execute("MGET", keys.identity, keys.head) == [identity, raw]:
            yield Damage(what=f"{session}: an index does not say what its record says")
        row = queue_row_of(record.head)
        if row is not None and not Queues(self._server, self._keys).has_position(row):
            yield Damage(what=f"{session}: its queue position does not match its head")
        if name is not None and self._server.execute("HGET", self._keys.names, name) != text_bytes(session):
            yield Damage(what=f"{session}: its name does not lead to it")
