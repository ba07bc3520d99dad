"""Sessions begin, change, are found and removed: always the record and every index it is in, in one transaction.

A session keeps a list of the indexes it is in, so that it can be taken out of them even where what it is cannot be
read any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from relight.errors import Conflict, Corrupt, NotFound, StoreUnavailable
from relight.journal.chain import seal
from relight.journal.queues.order import queue_row_of
from relight.ports.store import Record
from relight.stores.redis import rows
from relight.stores.redis.commits import MAX_TRIES, Journal
from relight.stores.redis.keys import Keys, bytes_text, member_of, text_bytes
from relight.stores.redis.server import Server, Words
from relight.values.session import Head, Identity

SCHEMA: Final = 1


class Sessions:
    """Of one store. Stateless."""

    def __init__(self, server: Server, keys: Keys, journal: Journal) -> None:
        self._server = server
        self._keys = keys
        self._journal = journal

    # -- finding ----------------------------------------------------------------------------------------------

    def find(self, session: str) -> Record | None:
        """By full id."""
        keys = self._keys.session(session)
        identity, head = self._server.ask("MGET", keys.identity, keys.head)
        return rows.read_record(session, identity, head)

    def find_named(self, name: str) -> Record | None:
        """By exact name."""
        for _ in range(MAX_TRIES):
            holder = self._server.ask("HGET", self._keys.names, text_bytes(name))
            if holder is None:
                return None
            record = self.find(bytes_text(holder))
            if record is not None and record.identity.name == name:
                return record
            if record is None and self._journal.expiry.is_over(bytes_text(holder)):
                return None
            if holder == self._server.ask("HGET", self._keys.names, text_bytes(name)):  # nobody moved it meanwhile
                raise Corrupt(f"the name {name!a} leads to a session that does not hold it", session=bytes_text(holder))
        raise StoreUnavailable(f"{name}: the name keeps changing hands")

    def find_prefixed(self, prefix: str, limit: int) -> list[Record]:
        """By the beginning of the id, in its order."""
        least = text_bytes(prefix)
        found = self._server.ask(
            "ZRANGEBYLEX", self._keys.ids, b"[" + least, b"(" + least + b"\xff", "LIMIT", 0, max(limit, 0)
        )
        records = (self.find(bytes_text(one)) for one in found)
        return [record for record in records if record is not None]

    # -- beginning ----------------------------------------------------------------------------------------------

    def create(self, identity: Identity, head: Head) -> None:
        """Begin a session, or Conflict."""
        expiry, parent = self._journal.expiry, identity.parent.session if identity.parent is not None else None
        expiry.tidy()
        checks, commands = self.begin_words(identity, head)
        own = len(checks)
        if parent is not None and expiry.deadline_ms(parent) is not None:  # what a fork reads from does not expire
            checks = [*checks, ("there", self._keys.session(parent).identity)]
            commands = [*commands, *expiry.keep_words(parent)]
        answer = self._server.transact(checks, [*commands, ("INCR", self._keys.changes)])
        if answer.failed == 2 and own == 2 and expiry.is_over(bytes_text(answer.found)):
            expiry.tidy([bytes_text(answer.found)])  # its name is held by one that has expired
            answer = self._server.transact(checks, [*commands, ("INCR", self._keys.changes)])
        if answer.failed > own:
            raise NotFound(parent or "")
        if answer.failed:
            raise taken(identity, answer.failed, answer.found)
        self._journal.forget(identity.id)

    def begin_words(self, identity: Identity, head: Head) -> tuple[list[Words], list[Words]]:
        """Checks and commands of a new session; the first check is for its id, a second one for its name."""
        keys, id_ = self._keys.session(identity.id), text_bytes(identity.id)
        checks: list[Words] = [("value", keys.identity, b"")]
        if identity.name is not None:
            checks.append(("free", self._keys.names, text_bytes(identity.name), id_))
        member = member_of(identity.created_us, identity.id)
        return checks, [
            ("SET", keys.identity, seal(identity)),
            ("SET", keys.head, rows.head_bytes(head)),
            ("SETNX", self._keys.schema, SCHEMA),
            ("ZADD", self._keys.ids, 0, id_),
            *self._index_words(identity),
            ("ZADD", self._keys.statuses[head.status], 0, member),
            *self._journal.lines.move_words(keys, None, queue_row_of(head)),
        ]

    def _index_words(self, identity: Identity) -> list[Words]:
        keys, member = self._keys.session(identity.id), member_of(identity.created_us, identity.id)
        words: list[Words] = [("HSET", keys.facts, "m", member)]
        if identity.name is not None:
            words.append(("HSET", keys.facts, "n", text_bytes(identity.name)))
            words.append(("HSET", self._keys.names, text_bytes(identity.name), text_bytes(identity.id)))
        for index in sorted(self._keys.indexes_of(identity)):
            words += [("ZADD", index, 0, member), ("SADD", keys.indexes, index)]
        return words

    # -- changing ---------------------------------------------------------------------------------------------------

    def update(self, identity: Identity) -> None:
        """Replace what a session is, or NotFound or Conflict."""
        self._replace(identity, None, None)

    def rebuild(self, head: Head, instead_of: bytes | None) -> None:
        """Another head in the place of one that cannot be read, or of the one with that digest; else Conflict. The
        indexes are made right too."""
        keys = self._keys.session(head.session)
        for _ in range(MAX_TRIES):
            identity, raw = self._server.ask("MGET", keys.identity, keys.head)
            record = rows.read_record(head.session, identity, raw)
            if record is None:
                raise NotFound(head.session)
            if record.head is not None and record.head.digest != instead_of:
                raise Conflict(f"{head.session}: its head is whole and is not replaced")
            if self._replace(record.identity, head, raw or b""):
                self._journal.forget(head.session)
                return
        raise StoreUnavailable(f"{head.session}: others keep moving its head; nothing was written")

    def _replace(self, identity: Identity, head: Head | None, expected: bytes | None) -> bool:
        """The record, with a head or as it stands, and all indexes. False where the head was not the expected one."""
        keys, id_ = self._keys.session(identity.id), text_bytes(identity.id)
        for _ in range(MAX_TRIES):
            (before, raw), facts, indexes = self._server.ask_all(
                [("MGET", keys.identity, keys.head), ("HMGET", keys.facts, "m", "n"), ("SMEMBERS", keys.indexes)]
            )
            if before is None:
                raise NotFound(identity.id)
            checks: list[Words] = [("value", keys.identity, before), ("value", keys.head, raw or b"")]
            if expected is not None and raw != expected:
                return False
            if identity.name is not None:
                checks.append(("free", self._keys.names, text_bytes(identity.name), id_))
            commands: list[Words] = [("SET", keys.identity, seal(identity), "KEEPTTL")]
            commands += self._unindex_words(identity.id, facts, indexes)
            commands += self._index_words(identity)
            now = head or rows.read_head(raw, identity.id)
            if now is not None:
                commands += self._journal.status_words(member_of(identity.created_us, identity.id), None, now)
            if head is not None:
                commands += self._journal.lines.leave_words(keys)
                commands += self._journal.lines.move_words(keys, None, queue_row_of(head))
                commands.append(("SET", keys.head, rows.head_bytes(head), "KEEPTTL"))
            answer = self._server.transact(checks, [*commands, ("INCR", self._keys.changes)])
            if not answer.failed:
                return True
            if answer.failed == len(checks) and identity.name is not None:
                raise taken(identity, 2, answer.found)
        raise StoreUnavailable(f"{identity.id}: others keep changing it; nothing was written")

    def _unindex_words(self, session: str, facts: Sequence[bytes | None], indexes: Iterable[bytes]) -> list[Words]:
        """Out of every index it is known to be in, and its name given up."""
        member, name = facts
        keys = self._keys.session(session)
        words: list[Words] = [("ZREM", index, member or b"") for index in indexes]
        words += [("ZREM", index, member or b"") for index in self._keys.statuses.values()]
        if name is not None:
            words += [("HDEL", self._keys.names, name), ("HDEL", keys.facts, "n")]
        return [*words, ("DEL", keys.indexes)]

    # -- removing -------------------------------------------------------------------------------------------------

    def removal_words(self, session: str) -> tuple[list[Words], list[Words], Head | None] | None:
        """Checks that it is what was read, commands that leave nothing of it, its head; None where there is none."""
        keys = self._keys.session(session)
        (identity, raw), facts, indexes, snapshots = self._server.ask_all(
            [
                ("MGET", keys.identity, keys.head),
                ("HMGET", keys.facts, "m", "n"),
                ("SMEMBERS", keys.indexes),
                ("HGETALL", keys.snapshots),
            ]
        )
        if identity is None and raw is None:
            return None
        checks: list[Words] = [("value", keys.identity, identity or b""), ("value", keys.head, raw or b"")]
        head = rows.read_head(raw, session)
        commands: list[Words] = [
            ("UNLINK", *(getattr(keys, name) for name in keys.__struct_fields__)),
            *self._journal.lines.leave_words(keys),
        ]
        commands += self._unindex_words(session, facts, indexes)
        commands += [("SREM", pool, row) for row, pool in _pairs(snapshots)]
        commands += [
            ("ZREM", self._keys.ids, text_bytes(session)),
            *(("ZREM", index, text_bytes(session)) for index in self._keys.expiring.values()),
            ("DECRBY", self._keys.size, self._size(session, head)),
        ]
        return checks, commands, head

    def _size(self, session: str, head: Head | None) -> int:
        """Bytes of its steps; where no head says it, by looking at them all."""
        if head is not None:
            return head.size_bytes
        steps = _pairs(self._server.ask("HGETALL", self._keys.session(session).steps))
        return sum(len(value) for field, value in steps if field.startswith(b"b"))


def taken(identity: Identity, check: int, holder: bytes) -> Conflict:
    """What a failed check of `begin_words` means."""
    if check == 1:
        return Conflict(f"{identity.id}: the session exists")
    return Conflict(f"{identity.name}: the name is taken by {bytes_text(holder)}")


def _pairs(found: object) -> Iterable[tuple[bytes, bytes]]:
    """HGETALL, as a mapping or as the flat list that a pipeline of plain commands gives."""
    if isinstance(found, dict):
        return list(found.items())
    assert isinstance(found, list)
    return list(zip(found[::2], found[1::2], strict=True))
