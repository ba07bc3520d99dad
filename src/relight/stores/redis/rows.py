"""Conversion between values and stored bytes. Whatever a flipped byte makes of them, reading gives a value or Corrupt.

A head begins with eight random bytes, new with every write: so a compare-and-set sees every write in between, and a
heartbeat is enough to invalidate a request that is still on its way.
"""

from __future__ import annotations

import os
from hashlib import sha256
from typing import Any, Final, get_args

import msgspec

from relight.errors import Corrupt
from relight.journal.chain import seal, unseal_head, unseal_identity
from relight.journal.codec import Undecodable, decode_open, encoded
from relight.ports.store import CheckpointRow, Record
from relight.stores.redis.keys import bytes_text, split_member, text_bytes
from relight.stores.stored_rows import damaged_step
from relight.values.session import Head, Identity
from relight.values.snapshot import Snapshot
from relight.values.step import Step, StepKind

NONCE_BYTES: Final = 8
_SEAL_BYTES: Final = 8
_DOMAIN: Final = b"relight redis row 1\n"
_KINDS: Final[dict[object, StepKind]] = {kind: kind for kind in get_args(StepKind)}
_YEAR_10000_US: Final = 253_402_300_800_000_000
_COUNTS: Final = slice(1, 8)
_WIDTH: Final = 12
_decoder: Final = msgspec.msgpack.Decoder(list[Any])

Columns = tuple[StepKind, int, int, int, int, int, int, int, bytes, bytes | None, bytes, bytes]
"""kind, at_us, attempt, base, since, message_count, turns, size, open, label, key, digest"""


# -- heads and identities ------------------------------------------------------------------------------------------


def head_bytes(head: Head) -> bytes:
    """A head as stored, with a new nonce."""
    return os.urandom(NONCE_BYTES) + seal(head)


def read_head(stored: bytes | None, session: str) -> Head | None:
    """The head; None if it is damaged or another session's."""
    try:
        head = unseal_head((stored or b"")[NONCE_BYTES:])
    except Undecodable:
        return None
    return head if head.session == session else None


def read_identity(stored: bytes | None, session: str) -> Identity | None:
    """The identity; None if it is damaged or another session's."""
    try:
        identity = unseal_identity(stored or b"")
    except Undecodable:
        return None
    return identity if identity.id == session else None


def read_record(session: str, identity: bytes | None, head: bytes | None) -> Record | None:
    """The session; None if there is none, Corrupt if its identity cannot be read."""
    if identity is None and head is None:
        return None
    known = read_identity(identity, session)
    if known is None:
        raise Corrupt("its identity cannot be read: the record fails its seal", session=session)
    return Record(identity=known, head=read_head(head, session))


def listed_record(member: bytes, identity: bytes | None, head: bytes | None) -> Record | None:
    """For lists: a session with a damaged identity is listed too, by its index entry and without a head."""
    created_us, session = split_member(member)
    if identity is None and head is None:
        return None
    known = read_identity(identity, session)
    if known is None:
        return Record(identity=Identity(id=session, created_us=created_us), head=None)
    return Record(identity=known, head=read_head(head, session))


# -- steps ---------------------------------------------------------------------------------------------------------


def step_columns(step: Step) -> bytes:
    """The columns of a step, without its body."""
    label = None if step.label is None else text_bytes(step.label)
    opened = encoded(step.open) if step.open else b""
    counts = (step.at_us, step.attempt, step.base, step.since, step.message_count, step.turns, len(step.body))
    return msgspec.msgpack.encode((step.kind, *counts, opened, label, step.key, step.digest))


def read_columns(stored: object) -> Columns | None:
    """The columns, or None if they cannot be a step's."""
    try:
        found = _decoder.decode(stored)  # type: ignore[arg-type]
    except (msgspec.MsgspecError, TypeError, ValueError):
        return None
    if len(found) != _WIDTH or found[0] not in _KINDS or any(type(count) is not int for count in found[_COUNTS]):
        return None
    opened, label, key, digest = found[8:]
    if not type(opened) is type(key) is type(digest) is bytes or (label is not None and type(label) is not bytes):
        return None
    return tuple(found)


def read_step(session: str, seq: int, stored: object, body: object) -> Step:
    """The step; if its columns or body are damaged, a stand-in that fails its digest."""
    columns = read_columns(stored)
    if columns is None or not isinstance(body, bytes) or len(body) != columns[7]:
        return damaged_step(session, seq, b"" if columns is None else columns[11])
    kind, at_us, attempt, base, since, message_count, turns, _, opened, label, key, digest = columns
    try:
        effects = decode_open(opened) if opened else ()
    except Undecodable:
        return damaged_step(session, seq, digest)
    return Step(
        session=session,
        seq=seq,
        kind=kind,
        at_us=at_us,
        attempt=attempt,
        base=base,
        since=since,
        message_count=message_count,
        turns=turns,
        open=effects,
        label=None if label is None else bytes_text(label),
        key=key,
        digest=digest,
        body=body,
    )


def read_checkpoint(
    session: str, seq: int, stored: bytes, label: str | None, snapshots: dict[str, str]
) -> CheckpointRow:
    """The checkpoint of a step, or Corrupt."""
    columns = read_columns(stored)
    if columns is None or not 0 <= columns[1] < _YEAR_10000_US:
        raise Corrupt("the row of the step cannot be read", session=session, seq=seq)
    kind, at_us, _, base, _, message_count, turns, size_bytes = columns[:8]
    return CheckpointRow(
        seq=seq,
        kind=kind,
        at_us=at_us,
        base=base,
        label=label,
        turns=turns,
        message_count=message_count,
        snapshots=snapshots,
        size_bytes=size_bytes,
    )


# -- rows that no digest covers ------------------------------------------------------------------------------------


def _sealed(kind: bytes, *values: str | int) -> bytes:
    body = msgspec.msgpack.encode([text_bytes(one) if isinstance(one, str) else one for one in values])
    return sha256(_DOMAIN + kind + b"\n" + body).digest()[:_SEAL_BYTES] + body


def _unsealed(kind: bytes, stored: bytes) -> list[Any]:
    body = stored[_SEAL_BYTES:]
    if sha256(_DOMAIN + kind + b"\n" + body).digest()[:_SEAL_BYTES] != stored[:_SEAL_BYTES]:
        raise Corrupt(f"the row of a {kind.decode()} fails its seal")
    return [bytes_text(one) if isinstance(one, bytes) else one for one in _decoder.decode(body)]


def label_row(session: str, seq: int, label: str) -> bytes:
    """The sealed row of a checkpoint's label."""
    return _sealed(b"label", session, seq, label)


def read_label(session: str, stored: bytes) -> tuple[int, str]:
    """Seq and label of a row, or Corrupt."""
    try:
        owner, seq, label = _unsealed(b"label", stored)
    except Corrupt as error:
        raise Corrupt(error.what, session=session) from None
    if owner != session:
        raise Corrupt("a label of another session is among its own", session=session)
    return seq, label


def snapshot_row(session: str, seq: int, snapshot: Snapshot) -> bytes:
    """The sealed row of a snapshot that a step references."""
    return _sealed(b"snapshot", session, seq, snapshot.root, snapshot.pool, snapshot.id)


def read_snapshot(stored: bytes) -> tuple[str, int, str, str, str]:
    """Session, seq, root, pool and id, or Corrupt."""
    session, seq, root, pool, snapshot = _unsealed(b"snapshot", stored)
    return session, seq, root, pool, snapshot


def segment_row(pool: str, segment: str) -> bytes:
    """The sealed row of a registered segment."""
    return _sealed(b"segment", pool, segment)


def read_segment(stored: bytes) -> str:
    """The name of a segment's row, or Corrupt."""
    _, segment = _unsealed(b"segment", stored)
    return str(segment)
