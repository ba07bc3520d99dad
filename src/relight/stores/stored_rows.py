"""What stores read back, which may be damaged; and rows of the SQL stores, whatever form the store has for text.

Whatever was done to a row, reading gives a value or raises Corrupt. Step columns of a wrong type become neutral values,
so that the digest fails and verification names the step. A session's columns are compared with its sealed record, so
that a column cannot contradict the record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any, Final, Generic, TypeVar, get_args

from relight.errors import Corrupt
from relight.journal.chain import seal, unseal_head, unseal_identity
from relight.journal.codec import Undecodable, decode_open
from relight.journal.search.names import asked, older_searchable, searchable
from relight.ports.store import CheckpointRow, Query, Record
from relight.values.call import OpenEffect
from relight.values.session import Head, Identity
from relight.values.step import Step, StepKind

_ROW_SEAL_BYTES: Final = 8
_ROW_DOMAIN: Final = b"relight small row 1\n"
_YEAR_10000_US: Final = 253_402_300_800_000_000

Row = tuple[Any, ...]
_Text = TypeVar("_Text")
"""text as a store binds it"""


def damaged_step(session: str, seq: int, digest: bytes = b"") -> Step:
    """A stand-in for a row that holds no valid step: it fails its digest, so that verification names its seq."""
    return Step(session, seq, "mark", 0, 0, 0, 0, 0, 0, (), None, b"", digest, b"")


def unsealed_identity(record: object) -> Identity | None:
    """The identity in a sealed record, or None if it is damaged."""
    try:
        return unseal_identity(record)  # type: ignore[arg-type]
    except (Undecodable, TypeError):
        return None


def unsealed_head(record: object) -> Head | None:
    """The head in a sealed record, or None if it is damaged or missing."""
    try:
        return unseal_head(record)  # type: ignore[arg-type]
    except (Undecodable, TypeError):
        return None


def row_seal(kind: str, *stored: str | bytes | int) -> bytes:
    """The seal of a row of labels, snapshots or segments with these columns: no digest covers them."""
    return sha256(_ROW_DOMAIN + "\n".join((kind, *map(repr, stored))).encode()).digest()[:_ROW_SEAL_BYTES]


def label_seal(sid: int, seq: int, stored_label: str | bytes) -> bytes:
    """The seal of a row of `checkpoint_labels`."""
    return row_seal("label", sid, seq, stored_label)


def label_count(query: Query) -> int:
    """How many entries of the index of labels a query names: as many as `label_pairs` gives."""
    return len(query.labels) + (query.spawned_by is not None)


class SqlRows(Generic[_Text]):
    """The conversions, for one form of text.

    `to_stored` and `to_searched` give what is bound to a statement, `as_read` what the driver returns for that, and
    `read` the text again, or None if it is none. `child_of` is the key under which the index of labels lists the
    children of a session; no label has it.
    """

    def __init__(
        self,
        *,
        to_stored: Callable[[str], _Text],
        to_searched: Callable[[str], _Text],
        as_read: Callable[[Any], object],
        read: Callable[[Any], str | None],
        as_read_word: Callable[[str], object],
        child_of: _Text,
    ) -> None:
        self._to_stored = to_stored
        self._to_searched = to_searched
        self._as_read = as_read
        self._read = read
        self._as_read_word = as_read_word
        self._child_of = child_of
        self._kinds: dict[object, StepKind] = {as_read_word(kind): kind for kind in get_args(StepKind)}

    # -- steps ----------------------------------------------------------------------------------------------------

    def read_step(self, session: str, row: Row) -> Step:
        """The step of a row of `read_steps`."""
        seq, size, kind, at_us, attempt, base, since, message_count, turns, opened, label, key, digest, body = row
        known = self._kinds.get(kind)
        if (
            known is None
            or type(body) is not bytes
            or len(body) != size
            or type(digest) is not bytes
            or type(key) is not bytes
            or not type(at_us)
            is type(attempt)
            is type(base)
            is type(since)
            is type(message_count)
            is type(turns)
            is int
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
            None if label is None else self._read(label),
            key,
            digest,
            body,
        )

    def read_checkpoints(
        self, session: str, rows: Iterable[Row], labels: dict[int, str], snapshots: dict[int, dict[str, str]]
    ) -> Iterator[CheckpointRow]:
        """Checkpoints of rows of `read_checkpoints`; Corrupt if a row cannot be a step."""
        for seq, stored_kind, at_us, base, turns, message_count, size_bytes in rows:
            kind = self._kinds.get(stored_kind)
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

    # -- sessions -------------------------------------------------------------------------------------------------

    def optional(self, text: str | None) -> _Text | None:
        """The stored form of a text that may be None."""
        return None if text is None else self._to_stored(text)

    def identity_columns(self, identity: Identity) -> tuple[_Text, int, Row]:
        """id, created_us, and (name, key, agent, provider, parent, searchable): the columns beside the record."""
        parent = identity.parent.session if identity.parent else None
        texts = (identity.name, identity.key, identity.agent, identity.provider, parent)
        others = (*map(self.optional, texts), self._to_searched(searchable(identity)))
        return self._to_stored(identity.id), identity.created_us, others

    def label_columns(self, identity: Identity) -> list[tuple[_Text, _Text]]:
        """Keys and values of its labels and, if it is a child, of its parent, as stored."""
        return self.label_pairs(identity.labels, identity.spawned_by)

    def label_pairs(self, labels: Mapping[str, str], spawned_by: str | None) -> list[tuple[_Text, _Text]]:
        """The entries in the index of labels, the most selective first."""
        child = [(self._child_of, self._to_stored(spawned_by))] if spawned_by is not None else []
        return child + [(self._to_stored(key), self._to_stored(value)) for key, value in labels.items()]

    def query_values(self, query: Query) -> dict[str, Any]:
        """Bindings of a list's conditions, but for statuses; `k0`, `v0` and so on are its labels, the leading first."""
        before_us, before_id = query.before or (0, "")
        values: dict[str, Any] = {
            "key": self.optional(query.key),
            "parent": self.optional(query.parent),
            "agent": self.optional(query.agent),
            "provider": self.optional(query.provider),
            "text": self._to_searched(asked(query.text)) if query.text is not None else None,
            "created_since_us": query.created_since_us,
            "before_us": before_us,
            "before_id": self._to_stored(before_id),
            "limit": max(query.limit, 0),
        }
        for n, pair in enumerate(self.label_pairs(query.labels, query.spawned_by)):
            values[f"k{n}"], values[f"v{n}"] = pair
        return values

    def session_row(self, identity: Identity, head: Head) -> Row:
        """Bindings of the statement `insert_session`."""
        id_, created_us, others = self.identity_columns(identity)
        return (id_, created_us, head.status, *others, seal(identity))

    def update_row(self, identity: Identity) -> Row:
        """Bindings of `update_session`, without the sid."""
        id_, created_us, others = self.identity_columns(identity)
        return (id_, created_us, *others, seal(identity))

    def read_record(self, row: Row) -> Record:
        """The session of a row, or Corrupt with the id column."""
        identity = unsealed_identity(row[-2])
        if identity is None:
            raise Corrupt("its identity cannot be read: the row fails its seal", session=self._read(row[1]))
        return Record(identity=identity, head=self._read_head(row, identity))

    def listed_record(self, row: Row) -> Record:
        """For lists: a session with a damaged identity is listed too, by its columns and without a head."""
        identity = unsealed_identity(row[-2])
        if identity is not None:
            return Record(identity=identity, head=self._read_head(row, identity))
        _, id_, created_us, _, name, key, agent, provider, *_ = row
        known = Identity(
            id=self._read(id_) or "?",
            name=self._read(name),
            key=self._read(key),
            agent=self._read(agent),
            provider=self._read(provider),
            created_us=created_us if type(created_us) is int else 0,
        )
        return Record(identity=known, head=None)

    def _read_head(self, row: Row, identity: Identity) -> Head | None:
        """The sealed head; None unless it is this session's and every column agrees with the two records."""
        _, id_, created_us, status, *others, _, record = row
        head = unsealed_head(record)
        if head is None or head.session != identity.id or self._as_read_word(head.status) != status:
            return None
        id_stored, created, columns = self.identity_columns(identity)
        there, found = (self._as_read(id_stored), created, *map(self._as_read, columns)), (id_, created_us, *others)
        if there != found:  # perhaps an older version wrote it, and it has not changed since
            there = (*there[:-1], self._as_read(self._to_searched(older_searchable(identity))))
        return head if there == found else None


def _read_open(stored: Any) -> tuple[OpenEffect, ...]:
    try:
        return decode_open(stored)
    except (Undecodable, TypeError):
        return ()
