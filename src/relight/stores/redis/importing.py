"""Whole sessions are taken in: their steps wait under keys of their own, and one transaction puts them in their place.

What waits expires, in case its program dies; a key loses its end in the same transaction that gives it its name.
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
from relight.stores.redis.server import Server, Words
from relight.stores.redis.sessions import Sessions, taken
from relight.values.session import Identity
from relight.values.snapshot import Snapshot
from relight.values.step import Step

STAGED_SECONDS: Final = 3600
_BATCH_WORDS: Final = 256
_BATCH_BYTES: Final = 4 * 1024 * 1024


class Adoption:
    """One of them: made, filled, and either put in place or dropped."""

    def __init__(self, server: Server, keys: Keys, journal: Journal, sessions: Sessions) -> None:
        self._server = server
        self._keys = keys
        self._journal = journal
        self._sessions = sessions
        self._token = os.urandom(8).hex().encode()
        self._checks: dict[Words, Callable[[bytes], Conflict]] = {}
        """what must hold, and the error where it does not"""
        self._commands: list[Words] = []
        self._numbers: dict[str, int] = {}
        self._places: dict[bytes, bytes] = {}
        """from where it waits to where it goes"""
        self._size = 0
        self._waiting: list[Words] = []
        self._waiting_bytes = 0

    def begin(self, records: Sequence[Record]) -> None:
        """The sessions themselves."""
        names = [record.identity.name for record in records if record.identity.name is not None]
        for name in names:
            if names.count(name) > 1:
                raise Conflict(f"{name}: two of the sessions hold this name")
        for number, record in enumerate(records):
            assert record.head is not None
            identity = record.identity
            self._numbers[identity.id] = number
            checks, commands = self._sessions.begin_words(identity, record.head)
            for place, check in enumerate(checks, 1):
                self._checks[check] = _meaning(identity, place)
            self._commands += commands

    def add(self, step: Step, snapshots: Sequence[Snapshot]) -> None:
        """One step waits."""
        place = self._keys.session(step.session)
        checks, commands = self._journal.step_words(place, step, snapshots)
        pools = [one.pool for one in snapshots for _ in one.segments]
        for check, pool in zip(checks, pools, strict=True):
            self._checks.setdefault(check, _swept(step.session, pool))
        written, _, *named = commands
        stage = self._keys.stage(self._token, self._numbers[step.session])
        self._places[stage] = place.steps
        self._waiting += [("HSET", stage, *written[2:]), ("EXPIRE", stage, STAGED_SECONDS)]
        self._commands += named
        self._size += len(step.body)
        self._waiting_bytes += len(step.body)
        if len(self._waiting) >= _BATCH_WORDS or self._waiting_bytes >= _BATCH_BYTES:
            self._send()

    def _send(self) -> None:
        self._server.ask_all(self._waiting)
        self._waiting.clear()
        self._waiting_bytes = 0

    def finish(self, labels: Iterable[tuple[str, int, str]]) -> None:
        """All of it is there from now on, or the error says why nothing is."""
        self._send()
        for session, seq, label in labels:
            row = rows.label_row(session, seq, label)
            self._commands.append(("RPUSH", self._keys.session(session).labels, row))
        self._commands.append(("INCRBY", self._keys.size, self._size))
        for stage, final in self._places.items():
            self._commands += [("RENAME", stage, final), ("PERSIST", final)]
        commands = [*self._commands, ("INCR", self._keys.changes)]
        answer = self._server.transact(list(self._checks), commands)
        if answer.failed:
            raise list(self._checks.values())[answer.failed - 1](answer.found)
        self._places.clear()

    def drop(self) -> None:
        """What still waits is not wanted."""
        if self._places:
            try:
                self._server.ask("UNLINK", *self._places)
            except StoreUnavailable:
                return  # it expires


def _meaning(identity: Identity, place: int) -> Callable[[bytes], Conflict]:
    return lambda found: taken(identity, place, found)


def _swept(session: str, pool: str) -> Callable[[bytes], Conflict]:
    return lambda found: SnapshotSwept(session, pool)
