"""Conversion between values and rows. Whatever a flipped byte makes of a row, reading gives a value or raises Corrupt.

Step columns of a wrong type become neutral values, so that the digest fails and verification names the step. A
session's columns are compared with its sealed record, so that a column cannot contradict the record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any, Final, get_args

from relight.errors import Corrupt
from relight.journal.chain import seal
from relight.journal.codec import Undecodable, decode_open, encoded
from relight.journal.search.names import searchable
from relight.ports.store import CheckpointRow, Record
from relight.stores.damaged_rows import damaged_step, unsealed_head, unsealed_identity
from relight.values.call import OpenEffect
from relight.values.session import Head, Identity
from relight.values.status import ENDED
from relight.values.step import Step, StepKind

SEQ_BITS: Final = 32
_ROW_SEAL_BYTES: Final = 8
_ROW_DOMAIN: Final = b"relight small row 1\n"
_ODD: Final = "\ufdd0"
"""a Unicode noncharacter: prefix of text that UTF-8 cannot encode, stored in hexadecimal"""
CHILD_OF: Final = _ODD + "spawned_by"
"""under this key the index of labels lists the children of a session; no label has it: behind `_ODD` those are
hexadecimal"""
_KINDS: Final[dict[object, StepKind]] = {kind.encode(): kind for kind in get_args(StepKind)}
_YEAR_10000_US: Final = 253_402_300_800_000_000

Row = tuple[Any, ...]


# -- text --------------------------------------------------------------------------------------------------------


def to_text(text: str) -> str:
    """Text as stored: lone surrogates are valid JSON but not UTF-8, and are escaped."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return _ODD + text.encode("utf-8", "surrogatepass").hex()
    return text if not text.startswith(_ODD) else _ODD + text.encode().hex()


def from_text(stored: str) -> str:
    """The original of text stored by `to_text`."""
    if not stored.startswith(_ODD):
        return stored
    try:
        return bytes.fromhex(stored[1:]).decode("utf-8", "surrogatepass")
    except ValueError:
        return stored


def read_text(stored: object) -> str | None:
    """Text of a column that was read as bytes; invalid UTF-8 is replaced."""
    return from_text(stored.decode("utf-8", "replace")) if type(stored) is bytes else None


def optional_text(text: str | None) -> str | None:
    """`to_text` for a value that may be None."""
    return None if text is None else to_text(text)


def to_search_text(text: str) -> str:
    """Text for searching: valid UTF-8, not reversible."""
    return text.encode("utf-8", "backslashreplace").decode()


# -- steps -------------------------------------------------------------------------------------------------------


def step_id(sid: int, seq: int) -> int:
    """The row id of a step."""
    return sid << SEQ_BITS | seq


def id_range(sid: int, after: int = 0, upto: int | None = None) -> tuple[int, int]:
    """Exclusive and inclusive row ids of the steps with after < seq <= upto."""
    most = (1 << SEQ_BITS) - 1
    return step_id(sid, min(max(after, 0), most)), step_id(sid, most if upto is None else min(max(upto, 0), most))


def step_row(sid: int, step: Step, body_id: int) -> Row:
    """Bindings of the statement `insert_step`."""
    return (
        sid << SEQ_BITS | step.seq,
        body_id,
        len(step.body),
        step.kind,
        step.at_us,
        step.attempt,
        step.base,
        step.since,
        step.message_count,
        step.turns,
        encoded(step.open) if step.open else None,
        None if step.label is None else to_text(step.label),
        step.key,
        step.digest,
    )


def read_step(session: str, row: Row) -> Step:
    """The step of a row of `read_steps`."""
    seq, size, kind, at_us, attempt, base, since, message_count, turns, opened, label, key, digest, body = row
    known = _KINDS.get(kind)
    if (
        known is None
        or type(body) is not bytes
        or len(body) != size
        or type(digest) is not bytes
        or type(key) is not bytes
        or not type(at_us) is type(attempt) is type(base) is type(since) is type(message_count) is type(turns) is int
    ):
        return damaged_step(session, seq, digest if type(digest) is bytes else b"")
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
        None if label is None else read_text(label),
        key,
        digest,
        body,
    )


def _read_open(stored: object) -> tuple[OpenEffect, ...]:
    try:
        return decode_open(stored)  # type: ignore[arg-type]
    except (Undecodable, TypeError):
        return ()


def read_checkpoints(
    session: str, rows: Iterable[Row], labels: dict[int, str], snapshots: dict[int, dict[str, str]]
) -> Iterator[CheckpointRow]:
    """Checkpoints of rows of `read_checkpoints`; Corrupt if a row cannot be a step."""
    for seq, stored_kind, at_us, base, turns, message_count, size_bytes in rows:
        kind = _KINDS.get(stored_kind)
        if (
            kind is None
            or not type(at_us) is type(base) is type(turns) is type(message_count) is type(size_bytes) is int
            or not 0 <= at_us < _YEAR_10000_US
        ):
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


def row_seal(kind: str, *stored: str | int) -> bytes:
    """The seal of a row of labels, snapshots or segments with these columns."""
    return sha256(_ROW_DOMAIN + "\n".join((kind, *map(repr, stored))).encode()).digest()[:_ROW_SEAL_BYTES]


def label_seal(sid: int, seq: int, stored_label: str) -> bytes:
    """The seal of a row of `checkpoint_labels`."""
    return row_seal("label", sid, seq, stored_label)


def read_label(sid: int, session: str, row: Row) -> tuple[int, str]:
    """Seq and label of a row, or Corrupt."""
    seq, stored, sealed = row
    label = stored.decode("utf-8", "replace") if type(stored) is bytes else ""
    if sealed != label_seal(sid, seq, label):
        raise Corrupt("the label of a checkpoint fails its seal", session=session)
    return seq, from_text(label)


# -- sessions ------------------------------------------------------------------------------------------------------


def identity_columns(identity: Identity) -> tuple[str, int, Row]:
    """id, created_us, and (name, key, agent, provider, parent, searchable): the columns beside the record."""
    return (
        to_text(identity.id),
        identity.created_us,
        (
            optional_text(identity.name),
            optional_text(identity.key),
            optional_text(identity.agent),
            optional_text(identity.provider),
            optional_text(identity.parent.session) if identity.parent else None,
            to_search_text(searchable(identity)),
        ),
    )


def label_columns(identity: Identity) -> list[tuple[str, str]]:
    """Keys and values of its labels and, if it is a child, of its parent, as stored."""
    return label_pairs(identity.labels, identity.spawned_by)


def label_pairs(labels: Mapping[str, str], spawned_by: str | None) -> list[tuple[str, str]]:
    """The entries in the index of labels, the most selective first."""
    child = [(CHILD_OF, to_text(spawned_by))] if spawned_by is not None else []
    return child + [(to_text(key), to_text(value)) for key, value in labels.items()]


def sort_name(name: str | None, session: str) -> str:
    """What an order by name compares, as stored."""
    return to_search_text((name or session).casefold())


def ended_columns(head: Head) -> Row:
    """What an ended session is ordered by: its last change, steps and cost; nothing before it ends."""
    if head.status not in ENDED:
        return (None, None, None)
    return (head.updated_us, head.seq, -1.0 if head.usage.cost is None else float(head.usage.cost))


def ended_order(column: int, status: str, created_us: int, record: bytes | None) -> object:
    """One of these columns for a migration, where a head may be damaged: it is listed as one without a step."""
    if status not in ENDED:
        return None
    head = unsealed_head(record)
    return (created_us, 0, -1.0)[column] if head is None else ended_columns(head)[column]


def session_row(identity: Identity, head: Head) -> Row:
    """Bindings of the statement `insert_session`."""
    id_, created_us, others = identity_columns(identity)
    name = sort_name(identity.name, identity.id)
    return (id_, created_us, head.status, *ended_columns(head), *others, name, seal(identity))


def update_row(identity: Identity) -> Row:
    """Bindings of `update_session`, without the sid."""
    id_, created_us, others = identity_columns(identity)
    return (id_, created_us, *others, sort_name(identity.name, identity.id), seal(identity))


def read_record(row: Row) -> Record:
    """The session of a row, or Corrupt with the id column."""
    identity = unsealed_identity(row[-2])
    if identity is None:
        raise Corrupt("its identity cannot be read: the row fails its seal", session=read_text(row[1]))
    return Record(identity=identity, head=_read_head(row, identity))


def listed_record(row: Row) -> Record:
    """For lists: a session with a damaged identity is listed too, by its columns and without a head."""
    identity = unsealed_identity(row[-2])
    if identity is not None:
        return Record(identity=identity, head=_read_head(row, identity))
    _, id_, created_us, _, name, key, agent, provider, *_ = row
    known = Identity(
        id=read_text(id_) or "?",
        name=read_text(name),
        key=read_text(key),
        agent=read_text(agent),
        provider=read_text(provider),
        created_us=created_us if type(created_us) is int else 0,
    )
    return Record(identity=known, head=None)


def _read_head(row: Row, identity: Identity) -> Head | None:
    """The sealed head; None unless it is this session's and every column agrees with the two records."""
    _, id_, created_us, status, *others, _, record = row
    head = unsealed_head(record)
    if head is None or head.session != identity.id or head.status.encode() != status:
        return None
    id_text, created, columns = identity_columns(identity)
    as_read = (id_text.encode(), created, *(None if column is None else column.encode() for column in columns))
    return head if as_read == (id_, created_us, *others) else None
