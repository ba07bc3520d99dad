"""Reading steps, checkpoints and labels.

Steps are read in batches by seq, so that the last hundred of a long journal cost as much as those of a short one:
columns first, then as many bodies as fit, so that a batch of large steps stays small.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from relight.errors import Corrupt
from relight.ports.store import CheckpointRow
from relight.stores.redis import rows
from relight.stores.redis.keys import Keys, body_field
from relight.stores.redis.server import Server
from relight.values.session import Head
from relight.values.step import Step

BATCH_ROWS: Final = 256
BATCH_BYTES: Final = 8 * 1024 * 1024
"""a batch of bodies ends at whichever limit comes first"""
CHECKPOINT_ROWS: Final = 2048


class Reading:
    """Reads the journal of one store. Stateless."""

    def __init__(self, server: Server, keys: Keys) -> None:
        self._server = server
        self._keys = keys

    def steps(self, session: str, after: int, upto: int | None) -> Iterator[Step]:
        """The session's own steps with after < seq <= upto, in order."""
        keys = self._keys.session(session)
        for batch in self._columns(session, after, upto, BATCH_ROWS):
            start = 0
            while start < len(batch):
                part = batch[start : start + _fitting(batch, start)]
                bodies = self._server.execute("HMGET", keys.steps, *(body_field(seq) for seq, _ in part))
                if None in bodies and not self._server.execute("EXISTS", keys.identity):
                    return  # deleted between the two reads: no damage
                for (seq, stored), body in zip(part, bodies, strict=True):
                    yield rows.read_step(session, seq, stored, body)
                start += len(part)

    def checkpoints(self, session: str, after: int, upto: int | None) -> list[CheckpointRow]:
        """The same steps without bodies, each with its newest label and its snapshots."""
        keys = self._keys.session(session)
        given, taken = self._server.execute_all([("LRANGE", keys.labels, 0, -1), ("HKEYS", keys.snapshots)])
        labels = dict(rows.read_label(session, row) for row in given)
        snapshots: dict[int, dict[str, str]] = {}
        for row in taken:
            _, seq, root, _, snapshot = rows.read_snapshot(row)
            snapshots.setdefault(seq, {})[root] = snapshot
        return [
            rows.read_checkpoint(session, seq, stored, labels.get(seq), snapshots.get(seq, {}))
            for batch in self._columns(session, after, upto, CHECKPOINT_ROWS)
            for seq, stored in batch
        ]

    def _columns(self, session: str, after: int, upto: int | None, size: int) -> Iterator[list[tuple[int, bytes]]]:
        keys = self._keys.session(session)
        last = self._last(session)
        last = last if upto is None else min(last, upto)
        for start in range(max(after, 0) + 1, last + 1, size):
            seqs = range(start, min(start + size, last + 1))
            found = self._server.execute("HMGET", keys.steps, *seqs)
            yield [(seq, stored) for seq, stored in zip(seqs, found, strict=True) if stored is not None]

    def _last(self, session: str) -> int:
        """The newest seq: from the head, or by reading all seqs if the head is damaged."""
        keys = self._keys.session(session)
        raw = self._server.execute("GET", keys.head)
        head = rows.read_head(raw, session)
        if head is not None:
            return head.seq
        seqs = [int(seq) for seq in self._server.execute("HKEYS", keys.steps) if seq.isdigit()]
        return max(seqs, default=0)

    def find_key(self, session: str, key: bytes, after: int, head: Head) -> Step | None:
        """The first step after seq `after` with this key; Corrupt if a missing step could be it."""
        keys, read = self._keys.session(session), 0
        for batch in self._columns(session, after, head.seq, BATCH_ROWS):
            for seq, stored in batch:
                columns = rows.read_columns(stored)
                if columns is not None and columns[10] == key:
                    return rows.read_step(
                        session, seq, stored, self._server.execute("HGET", keys.steps, body_field(seq))
                    )
                read += columns is not None
        identity = rows.read_identity(self._server.execute("GET", keys.identity), session)
        inherited = identity.parent.seq if identity is not None and identity.parent is not None else 0
        if read < head.seq - max(after, inherited):
            raise Corrupt("a step is missing, so it is unknown what was committed", session=session)
        return None

    def find_label(self, session: str, label: str, upto: int | None) -> int | None:
        """The seq, up to `upto`, that a label was last given to."""
        given: list[Any] = self._server.execute("LRANGE", self._keys.session(session).labels, 0, -1)
        labels = [rows.read_label(session, row) for row in given]
        return next((seq for seq, name in reversed(labels) if name == label and (upto is None or seq <= upto)), None)


def _fitting(batch: list[tuple[int, bytes]], start: int) -> int:
    """How many of a batch, from `start` on, fit into BATCH_BYTES; at least one."""
    size = 0
    for number, (_, stored) in enumerate(batch[start:]):
        columns = rows.read_columns(stored)
        size += 0 if columns is None else columns[7]
        if number and size > BATCH_BYTES:
            return number
    return len(batch) - start
