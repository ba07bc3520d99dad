"""Builds all records of a thread at once, for a copy, a pruning or an import.

Records refer to one another by number, so they are built again: a reference to one that is left out would dangle.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from relight.frameworks.langgraph import lists, maps
from relight.frameworks.langgraph.index import PAGE_RECORDS, Encoded, Index, Stored, Write
from relight.frameworks.langgraph.records import ListPart, MapPart, Named, Put, Writes, pack, page_of
from relight.values.session import GENESIS
from relight.values.step import StepKind

_FIRST: int = 2
"""the record after the step that begins the session"""


_Part = msgspec.Raw | ListPart | MapPart


class Builder:
    """Collects the records of a new thread, in order."""

    def __init__(self) -> None:
        self._records: list[tuple[bytes, StepKind]] = []
        self._named: list[Named] = []
        self._newest: tuple[int, Put] | None = None
        """(seq, record) of the last checkpoint"""
        self._last: dict[tuple[str, str], tuple[int, Encoded, _Part]] = {}
        """(namespace, channel) -> record of its last value, the value, its encoding"""

    def put(
        self,
        *,
        ns: str,
        id: str,
        parent: str | None,
        rest: msgspec.Raw,
        metadata: msgspec.Raw,
        values: Mapping[str, Encoded],
    ) -> None:
        """Add a checkpoint with all its values."""
        seq = len(self._records) + _FIRST
        held: dict[str, _Part] = {}
        at: dict[str, int] = {}
        for channel, value in values.items():
            last = self._last.get((ns, channel))
            if last is not None and type(last[1]) is type(value) and _is_equal(last[1], value):
                at[channel] = last[0]
                continue
            held[channel] = part = _part(value, last)
            self._last[ns, channel] = seq, value, part
        record = Put(
            ns=ns,
            id=id,
            parent=parent,
            rest=rest,
            metadata=metadata,
            values={channel: part for channel, part in held.items() if isinstance(part, msgspec.Raw)},
            lists={channel: part for channel, part in held.items() if isinstance(part, ListPart)},
            maps={channel: part for channel, part in held.items() if isinstance(part, MapPart)},
            at=at,
        )
        self._newest = len(self._records), record
        self._records.append((pack(record), "state"))
        self._named.append((seq, ns, id, parent, True))

    def writes(self, *, ns: str, id: str, writes: Iterable[Write]) -> None:
        """Add the writes on top of a checkpoint."""
        tasks: dict[tuple[str, str], list[tuple[int, str, msgspec.Raw]]] = {}
        for write in writes:
            tasks.setdefault((write.task, write.path), []).append((write.at, write.channel, write.raw))
        for (task, path), held in tasks.items():
            self._named.append((len(self._records) + _FIRST, ns, id, None, False))
            self._records.append((pack(Writes(ns=ns, id=id, task=task, path=path, writes=held)), "mark"))

    @property
    def records(self) -> list[tuple[bytes, StepKind]]:
        """All records; if they are many, the last checkpoint carries a page of the earlier ones."""
        records = list(self._records)
        if self._newest is not None and self._newest[0] >= PAGE_RECORDS:
            at, put = self._newest
            page = page_of((0, GENESIS), self._named[:at])
            records[at] = pack(msgspec.structs.replace(put, page=page)), "state"
        return records


def _is_equal(one: Encoded, other: Encoded) -> bool:
    if isinstance(one, msgspec.Raw) and isinstance(other, msgspec.Raw):
        return bytes(one) == bytes(other)
    return one == other and (not isinstance(one, Mapping) or list(one) == list(other))


def _part(value: Encoded, last: tuple[int, Encoded, _Part] | None) -> _Part:
    """The part of a value to write after the previous one."""
    if isinstance(value, msgspec.Raw):
        return value
    seq, before, part = last if last is not None else (0, (), None)
    if isinstance(value, Mapping):
        if isinstance(part, MapPart) and isinstance(before, Mapping):
            return maps.part_of(value, seq, part, None, before, _as_it_is)
        return maps.whole(value, _as_it_is)
    if isinstance(part, ListPart) and isinstance(before, list):
        return lists.part_of(value, seq, part, None, lambda: before, _as_it_is)
    return lists.whole(value, _as_it_is)


def _as_it_is(one: bytes, _: object) -> bytes:
    return one


def rebuilt(index: Index, keep: Iterable[Stored]) -> list[tuple[bytes, StepKind]]:
    """The records of a thread with these checkpoints of another one, and the writes on top of them."""
    builder = Builder()
    for stored in sorted(keep):
        put = stored.put
        values: dict[str, Encoded] = {}
        for channel in index.channels(stored):
            seq = index.seq_of(stored, channel)
            assert seq is not None
            values[channel] = _copied(index.encoded(seq, channel))
        builder.put(ns=put.ns, id=put.id, parent=put.parent, rest=put.rest, metadata=put.metadata, values=values)
        builder.writes(ns=put.ns, id=put.id, writes=_as_written(index, put))
    return builder.records


def _copied(held: Encoded) -> Encoded:
    """A copy: the index keeps using its own."""
    return held if isinstance(held, msgspec.Raw) else dict(held) if isinstance(held, Mapping) else list(held)


def _as_written(index: Index, put: Put) -> list[Write]:
    return sorted(index.written(put.ns, put.id).values(), key=lambda write: write.seq)
