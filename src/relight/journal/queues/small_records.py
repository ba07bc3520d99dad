"""Small sealed records beside the sessions: queue settings, slots, workers, retention policy, removed names, the
pause, what was notified, acknowledgements.

A record that fails its seal counts as missing: a queue without one allows everything, a worker registers again, and
without a retention policy nothing is removed.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Final, Literal, TypeVar

import msgspec

from relight.values.acknowledged import Acknowledged
from relight.values.policy import StoredPolicy
from relight.values.queues import Pause, PushKey, PushSubscription, Queue, Slots, Told, Worker
from relight.values.tombstone import Tombstone

RecordKind = Literal[
    "queue", "slots", "worker", "note", "removed", "policy", "tombstone", "pause", "told", "acknowledged", "push"
]
SEAL_BYTES: Final = 8
_DOMAIN: Final = b"relight kept record 1\n"
_T = TypeVar(
    "_T", Queue, Slots, Worker, StoredPolicy, Tombstone, Pause, Told, Acknowledged, PushKey, PushSubscription, int
)


def pack_record(
    record: Queue
    | Slots
    | Worker
    | StoredPolicy
    | Tombstone
    | Pause
    | Told
    | Acknowledged
    | PushKey
    | PushSubscription
    | int,
) -> bytes:
    """The stored form: seal, then bytes."""
    body = msgspec.msgpack.encode(record)
    return sha256(_DOMAIN + body).digest()[:SEAL_BYTES] + body


def unpack_record(stored: bytes, kind: type[_T]) -> _T | None:
    """What was given to `pack_record`, or None if the bytes are something else."""
    body = stored[SEAL_BYTES:]
    if sha256(_DOMAIN + body).digest()[:SEAL_BYTES] != stored[:SEAL_BYTES]:
        return None
    try:
        return msgspec.msgpack.decode(body, type=kind)
    except msgspec.MsgspecError:
        return None
