"""Conversion between values and rows of PostgreSQL.

Text is stored as UTF-8 bytes with lone surrogates passed through: PostgreSQL's text holds neither those nor NUL, and
bytes sort the same everywhere.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from relight.errors import Corrupt
from relight.journal.codec import encoded
from relight.stores.stored_rows import Row, SqlRows, label_seal
from relight.values.step import Step

CHILD_OF: Final = b"\xffspawned_by"
"""under this key the index of labels lists the children of a session; no label has it, because it is not UTF-8"""
MAX_SEQ: Final = 2**63 - 1


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
        ROWS.optional(step.label),
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
    label = ROWS.optional(step.label)
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


# -- rows that no digest covers ------------------------------------------------------------------------------------


def read_label(sid: int, session: str, row: Row) -> tuple[int, str]:
    """Seq and label of a row, or Corrupt."""
    seq, stored, sealed = row
    if sealed != label_seal(sid, seq, stored):
        raise Corrupt("the label of a checkpoint fails its seal", session=session)
    return seq, from_bytes(stored)


def _unchanged(stored: object) -> object:
    return stored


ROWS: Final = SqlRows(
    to_stored=to_bytes,
    to_searched=to_bytes,
    as_read=_unchanged,
    read=optional_text,
    as_read_word=_unchanged,
    child_of=CHILD_OF,
)
