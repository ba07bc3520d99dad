"""Conversion between values and rows. Whatever was done to a row, reading gives a value or raises Corrupt.

Text is stored as UTF-8 bytes with lone surrogates passed through: PostgreSQL's text holds neither those nor NUL, and
bytes sort the same everywhere. Step columns that cannot be ours become neutral values, so that the digest fails and
verification names the step. A session's columns are compared with its sealed record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any, Final, NamedTuple, get_args

from relight.errors import Corrupt
from relight.journal.chain import seal
from relight.journal.codec import Undecodable, decode_open, encoded
from relight.journal.search.names import searchable
from relight.ports.store import CheckpointRow, Record
from relight.stores.damaged_rows import damaged_step, unsealed_head, unsealed_identity
from relight.values.call import OpenEffect
from relight.values.session import Head, Identity
from relight.values.step import Step, StepKind

_ROW_SEAL_BYTES: Final = 8
_ROW_DOMAIN: Final = b"relight small row 1\n"
CHILD_OF: Final = b"\xffspawned_by"
"""under this key the index of labels lists the children of a session; no label has it, because it is not UTF-8"""
_KINDS: Final[dict[object, StepKind]] = {kind: kind for kind in get_args(StepKind)}
_YEAR_10000_US: Final = 253_402_300_800_000_000
MAX_SEQ: Final = 2**63 - 1

Row = tuple[Any, ...]


# -- text --------------------------------------------------------------------------------------------------------


def to_bytes(text: str) -> bytes:
    """Text as stored: UTF-8, lone surrogates included."""
    return text.encode("utf-8", "surrogatepass")


def from_bytes(stored: bytes) -> str:
    """The inverse of `to_bytes`; invalid UTF-8 is replaced."""
    try:
        return stored.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return stored.decode("utf-8", "replace")


def optional_bytes(text: str | None) -> bytes | None:
    """`to_bytes` for a value that may be None."""
    return None if text is None else to_bytes(text)


def optional_text(stored: bytes | None) -> str | None:
    """`from_bytes` for a value that may be None."""
    return None if stored is None else from_bytes(stored)


def up_to(seq: int | None) -> int:
    """The last seq of a range; None means unbounded."""
    return MAX_SEQ if seq is None else max(min(seq, MAX_SEQ), -1)


# -- steps -------------------------------------------------------------------------------------------------------


def step_columns(sid: int, step: Step) -> Row:
    """Bindings of the statement `insert_step`."""
    return (
        sid,
        step.seq,
        step.at_us,
        step.base,
        step.since,
        step.message_count,
        step.turns,
        step.attempt,
        step.kind,
        step.key,
        step.digest,
        encoded(step.open) if step.open else None,
        optional_bytes(step.label),
        step.body,
        len(step.body),
    )


class StepRow(NamedTuple):
    """Bindings of the statement `commit_step`, in its order."""

    sid: int
    planned_on: bytes
    moved_to: bytes
    seq: int
    at_us: int
    base: int
    since: int
    message_count: int
    turns: int
    attempt: int
    kind: str
    key: bytes
    digest: bytes
    open: bytes | None
    label: bytes | None
    label_seal: bytes | None
    status: str | None
    body: bytes


def step_row(sid: int, planned_on: bytes, moved_to: bytes, step: Step, status: str | None) -> StepRow:
    """The bindings that write a step if the head is still the one it was planned on."""
    label = optional_bytes(step.label)
    return StepRow(
        sid,
        planned_on,
        moved_to,
        step.seq,
        step.at_us,
        step.base,
        step.since,
        step.message_count,
        step.turns,
        step.attempt,
        step.kind,
        step.key,
        step.digest,
        encoded(step.open) if step.open else None,
        label,
        None if label is None else label_seal(sid, step.seq, label),
        status,
        step.body,
    )


def read_step(session: str, row: Row) -> Step:
    """The step of a row of `read_steps`."""
    seq, size, kind, at_us, attempt, base, since, message_count, turns, opened, label, key, digest, body = row
    known = _KINDS.get(kind)
    if known is None or len(body) != size:
        return damaged_step(session, seq, digest)
    # By position: with fourteen names the call would take longer than all the checks above.
    opens = () if opened is None else _read_open(opened)
    return Step(
        session,
        seq,
        known,
        at_us,
        attempt,
        base,
        since,
        message_count,
        turns,
        opens,
        optional_text(label),
        key,
        digest,
        body,
    )


def _read_open(stored: bytes) -> tuple[OpenEffect, ...]:
    try:
        return decode_open(stored)
    except Undecodable:
        return ()


def read_checkpoints(
    session: str, rows: Iterable[Row], labels: dict[int, str], snapshots: dict[int, dict[str, str]]
) -> Iterator[CheckpointRow]:
    """Checkpoints of rows of `read_checkpoints`; Corrupt if a row cannot be a step."""
    for seq, stored_kind, at_us, base, turns, message_count, size_bytes in rows:
        kind = _KINDS.get(stored_kind)
        if kind is None or not 0 <= at_us < _YEAR_10000_US:
            raise Corrupt("the row of the step cannot be read", session=session, seq=seq)
        yield CheckpointRow(
            seq=seq,
            kind=kind,
            at_us=at_us,
            base=base,
            label=labels.get(seq),
            turns=turns,
            message_count=message_count,
            snapshots=snapshots.get(seq) or {},
            size_bytes=size_bytes,
        )


# -- rows that no digest covers ------------------------------------------------------------------------------------


def row_seal(kind: str, *stored: bytes | int) -> bytes:
    """The seal of a row of labels, snapshots or segments with these columns."""
    return sha256(_ROW_DOMAIN + "\n".join((kind, *map(repr, stored))).encode()).digest()[:_ROW_SEAL_BYTES]


def label_seal(sid: int, seq: int, stored_label: bytes) -> bytes:
    """The seal of a row of `checkpoint_labels`."""
    return row_seal("label", sid, seq, stored_label)


def read_label(sid: int, session: str, row: Row) -> tuple[int, str]:
    """Seq and label of a row, or Corrupt."""
    seq, stored, sealed = row
    if sealed != label_seal(sid, seq, stored):
        raise Corrupt("the label of a checkpoint fails its seal", session=session)
    return seq, from_bytes(stored)


# -- sessions ------------------------------------------------------------------------------------------------------


def identity_columns(identity: Identity) -> tuple[bytes, int, Row]:
    """id, created_us, and (name, key, agent, provider, parent, searchable): the columns beside the record."""
    return (
        to_bytes(identity.id),
        identity.created_us,
        (
            optional_bytes(identity.name),
            optional_bytes(identity.key),
            optional_bytes(identity.agent),
            optional_bytes(identity.provider),
            optional_bytes(identity.parent.session) if identity.parent else None,
            to_bytes(searchable(identity)),
        ),
    )


def label_columns(identity: Identity) -> list[tuple[bytes, bytes]]:
    """Keys and values of its labels and, if it is a child, of its parent, as stored."""
    return label_pairs(identity.labels, identity.spawned_by)


def label_pairs(labels: Mapping[str, str], spawned_by: str | None) -> list[tuple[bytes, bytes]]:
    """The entries in the index of labels, the most selective first."""
    child = [(CHILD_OF, to_bytes(spawned_by))] if spawned_by is not None else []
    return child + [(to_bytes(key), to_bytes(value)) for key, value in labels.items()]


def session_row(identity: Identity, head: Head) -> Row:
    """Bindings of the statement `insert_session`."""
    id_, created_us, others = identity_columns(identity)
    return (id_, created_us, head.status, *others, seal(identity))


def update_row(identity: Identity) -> Row:
    """Bindings of `update_session`, without the sid."""
    id_, created_us, others = identity_columns(identity)
    return (id_, created_us, *others, seal(identity))


def read_record(row: Row) -> Record:
    """The session of a row, or Corrupt with the id column."""
    identity = unsealed_identity(row[-2])
    if identity is None:
        raise Corrupt("its identity cannot be read: the row fails its seal", session=from_bytes(row[1]))
    return Record(identity=identity, head=_read_head(row, identity))


def listed_record(row: Row) -> Record:
    """For lists: a session with a damaged identity is listed too, by its columns and without a head."""
    identity = unsealed_identity(row[-2])
    if identity is not None:
        return Record(identity=identity, head=_read_head(row, identity))
    _, id_, created_us, _, name, key, agent, provider, *_ = row
    known = Identity(
        id=from_bytes(id_),
        name=optional_text(name),
        key=optional_text(key),
        agent=optional_text(agent),
        provider=optional_text(provider),
        created_us=created_us,
    )
    return Record(identity=known, head=None)


def _read_head(row: Row, identity: Identity) -> Head | None:
    """The sealed head; None unless it is this session's and every column agrees with the two records."""
    _, id_, created_us, status, *others, _, record = row
    head = unsealed_head(record)
    if head is None or head.session != identity.id or head.status != status:
        return None
    id_bytes, created, columns = identity_columns(identity)
    return head if (id_bytes, created, *columns) == (id_, created_us, *others) else None
