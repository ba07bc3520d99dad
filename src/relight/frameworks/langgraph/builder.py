"""A thread written as a whole: for a copy, for what a pruning keeps, for an import.

The records are made anew, because they name one another by number: what is left out must not be missed by what stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from relight.frameworks.langgraph.index import PAGE_RECORDS, Index, Stored, Write
from relight.frameworks.langgraph.records import ListPart, Named, Put, Writes, pack, page_of
from relight.model.session import GENESIS
from relight.model.step import StepKind

_FIRST: int = 2
"""the record behind the step that begins the session"""

Encoded = msgspec.Raw | Sequence[bytes]
"""a value, or the elements of a list"""


class Builder:
    """Records in the order they will stand in."""

    def __init__(self) -> None:
        self._records: list[tuple[bytes, StepKind]] = []
        self._named: list[Named] = []
        self._newest: tuple[int, Put] | None = None
        """where the last checkpoint's record stands, and it"""
        self._last: dict[tuple[str, str], tuple[int, Encoded, int]] = {}
        """namespace and channel to the record that has its last value, the value, and its weight"""

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
        """One checkpoint with all its values."""
        seq = len(self._records) + _FIRST
        plain: dict[str, msgspec.Raw] = {}
        lists: dict[str, ListPart] = {}
        at: dict[str, int] = {}
        for channel, value in values.items():
            last = self._last.get((ns, channel))
            if isinstance(value, msgspec.Raw):
                if last is not None and isinstance(last[1], msgspec.Raw) and bytes(last[1]) == bytes(value):
                    at[channel] = last[0]
                else:
                    plain[channel] = value
                    self._last[ns, channel] = seq, value, 0
                continue
            part = _part(value, last)
            if part is None:
                assert last is not None
                at[channel] = last[0]
            else:
                lists[channel] = part
                self._last[ns, channel] = seq, list(value), part.weight
        record = Put(
            ns=ns, id=id, parent=parent, rest=rest, metadata=metadata, values=plain, lists=lists, at=at
        )  # fmt: skip
        self._newest = len(self._records), record
        self._records.append((pack(record), "state"))
        self._named.append((seq, ns, id, parent, True))

    def writes(self, *, ns: str, id: str, writes: Iterable[Write]) -> None:
        """What tasks wrote on top of a checkpoint."""
        tasks: dict[tuple[str, str], list[tuple[int, str, msgspec.Raw]]] = {}
        for write in writes:
            tasks.setdefault((write.task, write.path), []).append((write.at, write.channel, write.raw))
        for (task, path), held in tasks.items():
            self._named.append((len(self._records) + _FIRST, ns, id, None, False))
            self._records.append((pack(Writes(ns=ns, id=id, task=task, path=path, writes=held)), "mark"))

    @property
    def records(self) -> list[tuple[bytes, StepKind]]:
        """All of them; of many, the last checkpoint's carries a page with those before it."""
        records = list(self._records)
        if self._newest is not None and self._newest[0] >= PAGE_RECORDS:
            at, put = self._newest
            page = page_of((0, GENESIS), self._named[:at])
            records[at] = pack(msgspec.structs.replace(put, page=page)), "state"
        return records


def _part(value: Sequence[bytes], last: tuple[int, Encoded, int] | None) -> ListPart | None:
    """The part of a list that is new; None where nothing is."""
    if last is not None and not isinstance(last[1], msgspec.Raw):
        seq, before, weight = last
        keep = next((n for n, (a, b) in enumerate(zip(value, before, strict=False)) if a != b), None)
        keep = min(len(value), len(before)) if keep is None else keep
        if keep == len(value) == len(before):
            return None
        grown = weight + len(value) - keep
        if keep and grown <= 2 * len(value):
            add = [msgspec.Raw(one) for one in value[keep:]]
            return ListPart(size=len(value), base=seq, keep=keep, add=add, weight=grown)
    return ListPart(size=len(value), add=[msgspec.Raw(one) for one in value], weight=len(value))


def rebuilt(index: Index, keep: Iterable[Stored]) -> list[tuple[bytes, StepKind]]:
    """The records of a thread that holds these checkpoints of another one, with the writes on top of them."""
    builder = Builder()
    for stored in sorted(keep):
        put = stored.put
        values: dict[str, Encoded] = {}
        for channel in index.channels(stored):
            seq = index.place(stored, channel)
            assert seq is not None
            raw = index.raw(seq, channel)
            values[channel] = raw if raw is not None else list(index.elements(seq, channel))
        builder.put(ns=put.ns, id=put.id, parent=put.parent, rest=put.rest, metadata=put.metadata, values=values)
        builder.writes(ns=put.ns, id=put.id, writes=_as_written(index, put))
    return builder.records


def _as_written(index: Index, put: Put) -> list[Write]:
    return sorted(index.written(put.ns, put.id).values(), key=lambda write: write.seq)
