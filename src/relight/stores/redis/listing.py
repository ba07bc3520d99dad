"""Pages of sessions, at a cost that does not depend on how many sessions there are.

One condition leads: the one with the smallest index. Its members are read newest first, from the cursor on, in batches,
and the other conditions are checked on the records, until the page is full. Several statuses are merged.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge
from itertools import islice
from typing import Final

from relight.ports.store import Query, Record
from relight.stores.query_filter import matches
from relight.stores.redis.expiry import Expiry
from relight.stores.redis.keys import Keys, member_of, split_member, time_bytes
from relight.stores.redis.rows import listed_record
from relight.stores.redis.server import Server
from relight.values.status import STATUSES, Status

FIRST_BATCH: Final = 64
MAX_BATCH: Final = 1024


class Listing:
    """Lists of one store. Stateless."""

    def __init__(self, server: Server, keys: Keys) -> None:
        self._server = server
        self._keys = keys

    def page(self, query: Query) -> list[Record]:
        """At most `limit` sessions, newest first."""
        found: list[Record] = []
        if query.limit <= 0 or (query.statuses is not None and not query.statuses):
            return found
        leading = self._leading(query)
        size = min(max(query.limit, FIRST_BATCH), MAX_BATCH)
        members = merge(*(self._members(index, query, size) for index in leading), reverse=True)
        last = b""
        while len(found) < query.limit and (batch := list(islice(members, size))):
            own = [member for member, before in zip(batch, [last, *batch], strict=False) if member != before]
            last = batch[-1]  # a session whose status changes between two reads is in two indexes
            found += self._fitting(own, query)
        return found[: query.limit]

    def _leading(self, query: Query) -> list[bytes]:
        choices: list[list[bytes]] = [[self._keys.all]]
        fields = {one: getattr(query, one) for one in ("key", "parent", "spawned_by", "agent", "provider")}
        choices += [[self._keys.by(field, value)] for field, value in fields.items() if value is not None]
        choices += [[self._keys.by_label(name, value)] for name, value in query.labels.items()]
        if query.statuses is not None:
            choices.append([self._keys.statuses[status] for status in STATUSES if status in query.statuses])
        if len(choices) == 1:
            return choices[0]
        sizes = iter(self._server.execute_all([("ZCARD", index) for choice in choices for index in choice]))
        return min(choices, key=lambda choice: sum(next(sizes) for _ in choice))

    def _members(self, index: bytes, query: Query, size: int) -> Iterator[bytes]:
        most = b"+" if query.before is None else b"(" + member_of(*query.before)
        least = b"-" if query.created_since_us is None else b"[" + time_bytes(query.created_since_us)
        while True:
            batch: list[bytes] = self._server.execute("ZREVRANGEBYLEX", index, most, least, "LIMIT", 0, size)
            yield from batch
            if len(batch) < size:
                return
            most = b"(" + batch[-1]

    def _fitting(self, members: list[bytes], query: Query) -> list[Record]:
        keys = [self._keys.session(split_member(member)[1]) for member in members]
        if not keys:
            return []
        stored = self._server.execute("MGET", *(key for one in keys for key in (one.identity, one.head)))
        records = map(listed_record, members, stored[::2], stored[1::2])
        return [record for record in records if record is not None and matches(record, query)]

    def counts(self) -> dict[Status, int]:
        """Number of sessions by status, without expired ones."""
        sizes = self._server.execute_all([("ZCARD", index) for index in self._keys.statuses.values()])
        expired = Expiry(self._server, self._keys).count_expired()
        left = {status: size - expired.get(status, 0) for status, size in zip(self._keys.statuses, sizes, strict=True)}
        return {status: size for status, size in left.items() if size > 0}
