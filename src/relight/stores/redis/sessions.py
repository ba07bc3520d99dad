"""Creating, updating, finding and removing sessions: the record and every index it is in, in one transaction.

A session has a list of the indexes it is in, so that it can be removed from them even if its identity is damaged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from relight.errors import Conflict, Corrupt, NotFound, StoreUnavailable
from relight.journal.chain import seal
from relight.journal.queues.order import queue_row_of
from relight.ports.store import Record
from relight.stores.redis import rows
from relight.stores.redis.commits import MAX_ATTEMPTS, Journal
from relight.stores.redis.keys import Keys, bytes_text, member_of, text_bytes
from relight.stores.redis.server import Command, Server
from relight.values.session import Head, Identity

SCHEMA: Final = 1


class Sessions:
    """The sessions of one store. Stateless."""

    def __init__(self, server: Server, keys: Keys, journal: Journal) -> None:
        self._server = server
        self._keys = keys
        self._journal = journal

    # -- finding ----------------------------------------------------------------------------------------------

    def find(self, session: str) -> Record | None:
        """Find a session by its full id."""
        keys = self._keys.session(session)
        identity, head = self._server.execute("MGET", keys.identity, keys.head)
        return rows.read_record(session, identity, head)

    def find_named(self, name: str) -> Record | None:
        """Find a session by its exact name."""
        for _ in range(MAX_ATTEMPTS):
            holder = self._server.execute("HGET", self._keys.names, text_bytes(name))
            if holder is None:
                return None
            record = self.find(bytes_text(holder))
            if record is not None and record.identity.name == name:
                return record
            if record is None and self._journal.expiry.is_expired(bytes_text(holder)):
                return None
            # Read again: the name may have moved to another session between the two reads.
            if holder == self._server.execute("HGET", self._keys.names, text_bytes(name)):
                raise Corrupt(f"the name {name!r} leads to a session that does not hold it", session=bytes_text(holder))
        raise StoreUnavailable(f"{name}: sessions with this name keep changing")

    def find_prefixed(self, prefix: str, limit: int) -> list[Record]:
        """Find sessions by a prefix of the id, ordered by id."""
        least = text_bytes(prefix)
        found = self._server.execute(
            "ZRANGEBYLEX", self._keys.ids, b"[" + least, b"(" + least + b"\xff", "LIMIT", 0, max(limit, 0)
        )
        records = (self.find(bytes_text(one)) for one in found)
        return [record for record in records if record is not None]

    # -- creating -----------------------------------------------------------------------------------------------

    def create(self, identity: Identity, head: Head) -> None:
        """Create a session. Conflict if the id or the name exists."""
        expiry, parent = self._journal.expiry, identity.parent.session if identity.parent is not None else None
        expiry.tidy()
        checks, commands = self.create_commands(identity, head)
        own = len(checks)
        if parent is not None and expiry.deadline_ms(parent) is not None:  # what a fork reads from does not expire
            checks = [*checks, ("there", self._keys.session(parent).identity)]
            commands = [*commands, *expiry.persist_commands(parent)]
        reply = self._server.transact(checks, [*commands, ("INCR", self._keys.changes)])
        if reply.failed == 2 and own == 2 and expiry.is_expired(bytes_text(reply.found)):
            expiry.tidy([bytes_text(reply.found)])  # the name belongs to a session that has expired
            reply = self._server.transact(checks, [*commands, ("INCR", self._keys.changes)])
        if reply.failed > own:
            raise NotFound(parent or "")
        if reply.failed:
            raise name_conflict(identity, reply.failed, reply.found)
        self._journal.forget(identity.id)

    def create_commands(self, identity: Identity, head: Head) -> tuple[list[Command], list[Command]]:
        """Checks and commands of a new session; the first check is for its id, a second one for its name."""
        keys, id_ = self._keys.session(identity.id), text_bytes(identity.id)
        checks: list[Command] = [("value", keys.identity, b"")]
        if identity.name is not None:
            checks.append(("free", self._keys.names, text_bytes(identity.name), id_))
        member = member_of(identity.created_us, identity.id)
        return checks, [
            ("SET", keys.identity, seal(identity)),
            ("SET", keys.head, rows.head_bytes(head)),
            ("SETNX", self._keys.schema, SCHEMA),
            ("ZADD", self._keys.ids, 0, id_),
            *self._index_commands(identity),
            ("ZADD", self._keys.statuses[head.status], 0, member),
            *self._journal.queues.move_commands(keys, None, queue_row_of(head)),
        ]

    def _index_commands(self, identity: Identity) -> list[Command]:
        keys, member = self._keys.session(identity.id), member_of(identity.created_us, identity.id)
        commands: list[Command] = [("HSET", keys.facts, "m", member)]
        if identity.name is not None:
            commands.append(("HSET", keys.facts, "n", text_bytes(identity.name)))
            commands.append(("HSET", self._keys.names, text_bytes(identity.name), text_bytes(identity.id)))
        for index in sorted(self._keys.indexes_of(identity)):
            commands += [("ZADD", index, 0, member), ("SADD", keys.indexes, index)]
        return commands

    # -- changing ---------------------------------------------------------------------------------------------------

    def update(self, session: str, change: Callable[[Identity], Identity]) -> Identity:
        """Change a session's identity; NotFound, or Conflict if the name is taken."""
        changed = self._replace(session, change, None, None)
        assert changed is not None
        return changed

    def rebuild(self, head: Head, instead_of: bytes | None) -> None:
        """Replace a head that cannot be read, or that has the digest `instead_of`; else Conflict. Rebuilds the
        indexes."""
        keys = self._keys.session(head.session)
        for _ in range(MAX_ATTEMPTS):
            identity, raw = self._server.execute("MGET", keys.identity, keys.head)
            record = rows.read_record(head.session, identity, raw)
            if record is None:
                raise NotFound(head.session)
            if record.head is not None and record.head.digest != instead_of:
                raise Conflict(f"{head.session}: its head is whole and is not replaced")
            if self._replace(head.session, lambda identity: identity, head, raw or b"") is not None:
                self._journal.forget(head.session)
                return
        raise StoreUnavailable(f"{head.session}: concurrent writers keep changing its head; nothing was written")

    def _replace(
        self, session: str, change: Callable[[Identity], Identity], head: Head | None, expected: bytes | None
    ) -> Identity | None:
        """Change the identity, optionally replace the head, and all index entries. None if the head was not the
        expected one."""
        keys, id_ = self._keys.session(session), text_bytes(session)
        for _ in range(MAX_ATTEMPTS):
            (before, raw), facts, indexes = self._server.execute_all(
                [("MGET", keys.identity, keys.head), ("HMGET", keys.facts, "m", "n"), ("SMEMBERS", keys.indexes)]
            )
            record = rows.read_record(session, before, raw)
            if record is None:
                raise NotFound(session)
            identity = change(record.identity)
            checks: list[Command] = [("value", keys.identity, before), ("value", keys.head, raw or b"")]
            if expected is not None and raw != expected:
                return None
            if identity.name is not None:
                checks.append(("free", self._keys.names, text_bytes(identity.name), id_))
            commands: list[Command] = [("SET", keys.identity, seal(identity), "KEEPTTL")]
            commands += self._unindex_commands(session, facts, indexes)
            commands += self._index_commands(identity)
            now = head or record.head
            if now is not None:
                commands += self._journal.status_commands(member_of(identity.created_us, identity.id), None, now)
            if head is not None:
                commands += self._journal.queues.leave_commands(keys)
                commands += self._journal.queues.move_commands(keys, None, queue_row_of(head))
                commands.append(("SET", keys.head, rows.head_bytes(head), "KEEPTTL"))
            reply = self._server.transact(checks, [*commands, ("INCR", self._keys.changes)])
            if not reply.failed:
                return identity
            if reply.failed == len(checks) and identity.name is not None:
                raise name_conflict(identity, 2, reply.found)
        raise StoreUnavailable(f"{session}: concurrent writers keep changing it; nothing was written")

    def _unindex_commands(self, session: str, facts: Sequence[bytes | None], indexes: Iterable[bytes]) -> list[Command]:
        """Commands that remove it from every index it is in, and free its name."""
        member, name = facts
        keys = self._keys.session(session)
        commands: list[Command] = [("ZREM", index, member or b"") for index in indexes]
        commands += [("ZREM", index, member or b"") for index in self._keys.statuses.values()]
        if name is not None:
            commands += [("HDEL", self._keys.names, name), ("HDEL", keys.facts, "n")]
        return [*commands, ("DEL", keys.indexes)]

    # -- removing -------------------------------------------------------------------------------------------------

    def removal_commands(self, session: str) -> tuple[list[Command], list[Command], Head | None] | None:
        """Checks that it is unchanged, commands that remove it, and its head; None if there is no such session."""
        keys = self._keys.session(session)
        (identity, raw), facts, indexes, snapshots = self._server.execute_all(
            [
                ("MGET", keys.identity, keys.head),
                ("HMGET", keys.facts, "m", "n"),
                ("SMEMBERS", keys.indexes),
                ("HGETALL", keys.snapshots),
            ]
        )
        if identity is None and raw is None:
            return None
        checks: list[Command] = [("value", keys.identity, identity or b""), ("value", keys.head, raw or b"")]
        head = rows.read_head(raw, session)
        commands: list[Command] = [
            ("UNLINK", *(getattr(keys, name) for name in keys.__struct_fields__)),
            *self._journal.queues.leave_commands(keys),
        ]
        commands += self._unindex_commands(session, facts, indexes)
        commands += [("SREM", pool, row) for row, pool in _pairs(snapshots)]
        commands += [
            ("ZREM", self._keys.ids, text_bytes(session)),
            *(("ZREM", index, text_bytes(session)) for index in self._keys.expiring.values()),
            ("DECRBY", self._keys.size, self._size(session, head)),
        ]
        return checks, commands, head

    def _size(self, session: str, head: Head | None) -> int:
        """Total size of its steps; if the head is damaged, by reading them all."""
        if head is not None:
            return head.size_bytes
        steps = _pairs(self._server.execute("HGETALL", self._keys.session(session).steps))
        return sum(len(value) for field, value in steps if field.startswith(b"b"))


def name_conflict(identity: Identity, check: int, holder: bytes) -> Conflict:
    """The error for a failed check of `create_commands`."""
    if check == 1:
        return Conflict(f"{identity.id}: the session exists")
    return Conflict(f"{identity.name}: the name is taken by {bytes_text(holder)}")


def _pairs(found: object) -> Iterable[tuple[bytes, bytes]]:
    """The pairs of HGETALL, which is a mapping, or a flat list from a pipeline."""
    if isinstance(found, dict):
        return list(found.items())
    assert isinstance(found, list)
    return list(zip(found[::2], found[1::2], strict=True))
