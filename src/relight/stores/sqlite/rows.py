"""Conversion between values and rows of SQLite, which reads text as bytes, so that a flipped byte breaks no read."""

from __future__ import annotations

from typing import Final

from relight.errors import Corrupt
from relight.journal.chain import seal
from relight.journal.codec import encoded
from relight.journal.search.names import searchable
from relight.stores.stored_rows import Row, SqlRows, label_seal, unsealed_head, unsealed_identity
from relight.values.session import Head, Identity
from relight.values.status import ENDED
from relight.values.step import Step

SEQ_BITS: Final = 32
_ODD: Final = "\ufdd0"
"""a Unicode noncharacter: prefix of text that UTF-8 cannot encode, stored in hexadecimal"""
CHILD_OF: Final = _ODD + "spawned_by"
"""under this key the index of labels lists the children of a session; no label has it: behind `_ODD` those are
hexadecimal"""
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


# -- rows that no digest covers ------------------------------------------------------------------------------------


def read_label(sid: int, session: str, row: Row) -> tuple[int, str]:
    """Seq and label of a row, or Corrupt."""
    seq, stored, sealed = row
    label = stored.decode("utf-8", "replace") if type(stored) is bytes else ""
    if sealed != label_seal(sid, seq, label):
        raise Corrupt("the label of a checkpoint fails its seal", session=session)
    return seq, from_text(label)


def _as_read(stored: str | None) -> bytes | None:
    return None if stored is None else stored.encode()


ROWS: Final = SqlRows(
    to_stored=to_text,
    to_searched=to_search_text,
    as_read=_as_read,
    read=read_text,
    as_read_word=str.encode,
    child_of=CHILD_OF,
)


# -- sessions ------------------------------------------------------------------------------------------------------


def sort_name(name: str | None, session: str) -> str:
    """What an order by name compares, as stored."""
    return to_search_text((name or session).casefold())


def searchable_text(record: bytes) -> str | None:
    """What a search of names looks in, for a migration; None where the record is damaged."""
    identity = unsealed_identity(record)
    return None if identity is None else to_search_text(searchable(identity))


def ended_columns(head: Head) -> Row:
    """What an ended session is ordered by: its last change, steps and cost; nothing before it ends."""
    if head.status not in ENDED:
        return (None, None, None)
    return (head.updated_us, head.seq, -1.0 if head.usage.cost is None else float(head.usage.cost))


def ended_order(column: int, status: bytes, created_us: int, record: bytes | None) -> object:
    """One of these columns for a migration, where a head may be damaged: it is listed as one without a step."""
    if read_text(status) not in ENDED:
        return None
    head = unsealed_head(record)
    return (created_us, 0, -1.0)[column] if head is None else ended_columns(head)[column]


def session_row(identity: Identity, head: Head) -> Row:
    """Bindings of the statement `insert_session`."""
    id_, created_us, others = ROWS.identity_columns(identity)
    name = sort_name(identity.name, identity.id)
    return (id_, created_us, head.status, *ended_columns(head), *others, name, seal(identity))


def update_row(identity: Identity) -> Row:
    """Bindings of `update_session`, without the sid."""
    id_, created_us, others = ROWS.identity_columns(identity)
    return (id_, created_us, *others, sort_name(identity.name, identity.id), seal(identity))
