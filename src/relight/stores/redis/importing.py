"""Importing whole sessions: steps are staged under temporary keys, and one transaction renames them into place.

Staged keys expire, in case the process dies; a key loses its TTL in the same transaction that renames it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from relight.errors import Conflict, SnapshotSwept, StoreUnavailable
from relight.ports.store import Record
from relight.stores.redis import rows
from relight.stores.redis.commits import Journal
from relight.stores.redis.keys import Keys
from relight.stores.redis.server import Command, Server
from relight.stores.redis.sessions import Sessions, name_conflict
from relight.values.session import Identity
from relight.values.snapshot import Snapshot
from relight.values.step import Step

STAGED_SECONDS: Final = 3600
_BATCH_WORDS: Final = 256
_BATCH_BYTES: Final = 4 * 1024 * 1024


class SessionImport:
    """One import: begun, filled, and either finished or dropped."""

    def __init__(self, server: Server, keys: Keys, journal: Journal, sessions: Sessions) -> None:
        self._server = server
        self._keys = keys
        self._journal = journal
        self._sessions = sessions
        self._token = os.urandom(8).hex().encode()
        self._checks: dict[Command, Callable[[bytes], Conflict]] = {}
        """checks, each with the error to raise if it fails"""
        self._commands: list[Command] = []
        self._numbers: dict[str, int] = {}
        self._final_keys: dict[bytes, bytes] = {}
        """staged key to final key"""
        self._size = 0
        self._waiting: list[Command] = []
        self._waiting_bytes = 0

    def begin(self, records: Sequence[Record]) -> None:
        """Add the sessions' records, with the checks that their ids and names are free."""
        names = [record.identity.name for record in records if record.identity.name is not None]
        for name in names:
            if names.count(name) > 1:
                raise Conflict(f"{name}: two of the sessions hold this name")
        for number, record in enumerate(records):
            assert record.head is not None
            identity = record.identity
            self._numbers[identity.id] = number
            checks, commands = self._sessions.create_commands(identity, record.head)
            for position, check in enumerate(checks, 1):
                self._checks[check] = _conflict(identity, position)
            self._commands += commands

    def add(self, step: Step, snapshots: Sequence[Snapshot]) -> None:
        """Stage one step under its session's temporary key."""
        keys = self._keys.session(step.session)
        checks, commands = self._journal.step_commands(keys, step, snapshots)
        pools = [one.pool for one in snapshots for _ in one.segments]
        for check, pool in zip(checks, pools, strict=True):
            self._checks.setdefault(check, _swept(step.session, pool))
        written, _, *named = commands
        stage = self._keys.stage(self._token, self._numbers[step.session])
        self._final_keys[stage] = keys.steps
        self._waiting += [("HSET", stage, *written[2:]), ("EXPIRE", stage, STAGED_SECONDS)]
        self._commands += named
        self._size += len(step.body)
        self._waiting_bytes += len(step.body)
        if len(self._waiting) >= _BATCH_WORDS or self._waiting_bytes >= _BATCH_BYTES:
            self._send()

    def _send(self) -> None:
        self._server.execute_all(self._waiting)
        self._waiting.clear()
        self._waiting_bytes = 0

    def finish(self, labels: Iterable[tuple[str, int, str]]) -> None:
        """Write everything in one transaction, or raise why nothing was written."""
        self._send()
        for session, seq, label in labels:
            row = rows.label_row(session, seq, label)
            self._commands.append(("RPUSH", self._keys.session(session).labels, row))
        self._commands.append(("INCRBY", self._keys.size, self._size))
        for stage, final in self._final_keys.items():
            self._commands += [("RENAME", stage, final), ("PERSIST", final)]
        commands = [*self._commands, ("INCR", self._keys.changes)]
        reply = self._server.transact(list(self._checks), commands)
        if reply.failed:
            raise list(self._checks.values())[reply.failed - 1](reply.found)
        self._final_keys.clear()

    def drop(self) -> None:
        """Delete what is still staged."""
        if self._final_keys:
            try:
                self._server.execute("UNLINK", *self._final_keys)
            except StoreUnavailable:
                return  # it expires


def _conflict(identity: Identity, position: int) -> Callable[[bytes], Conflict]:
    return lambda found: name_conflict(identity, position, found)


def _swept(session: str, pool: str) -> Callable[[bytes], Conflict]:
    return lambda found: SnapshotSwept(session, pool)
