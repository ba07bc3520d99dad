"""A thread in memory: which checkpoints and writes its records hold, and how a value is put together from them.

Built from the records in the order they were written; nothing but their outlines is decoded. Records never change, so
the index only grows, except after a rewind, when it is built anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from relight.engine.ledger import Entry
from relight.frameworks.langgraph.records import ListPart, Put, Writes, unpack


class Write(NamedTuple):
    """One value that a task wrote."""

    task: str
    at: int
    channel: str
    raw: msgspec.Raw
    path: str

    @property
    def order(self) -> tuple[str, str, int]:
        """As LangGraph applies them: by the task's path, then its id, then the order it wrote in."""
        return self.path, self.task, self.at


class Stored(NamedTuple):
    """A checkpoint and the record it is in."""

    seq: int
    put: Put


class Index:
    """Everything a thread holds."""

    def __init__(self) -> None:
        self.spaces: dict[str, dict[str, Stored]] = {}
        """namespace to checkpoint id to checkpoint"""
        self._newest: dict[str, str] = {}
        self._by_seq: dict[int, Put] = {}
        self._writes: dict[tuple[str, str], dict[tuple[str, int], Write]] = {}
        self._lists: dict[tuple[str, str], tuple[int, list[bytes]]] = {}
        """the list of a channel that was put together last"""
        self.size_bytes = 0

    def add(self, entry: Entry) -> None:
        """Take one record in. Undecodable."""
        record = unpack(entry.data)
        self.size_bytes += len(entry.data)
        if isinstance(record, Put):
            self._by_seq[entry.seq] = record
            self.spaces.setdefault(record.ns, {})[record.id] = Stored(entry.seq, record)
            if record.id >= self._newest.get(record.ns, ""):
                self._newest[record.ns] = record.id
        elif isinstance(record, Writes):
            held = self._writes.setdefault((record.ns, record.id), {})
            for index, channel, raw in record.writes:
                held[record.task, index] = Write(record.task, index, channel, raw, record.path)

    # -- finding ----------------------------------------------------------------------------------------------

    def find(self, ns: str, id: str | None) -> Stored | None:
        """The checkpoint of this id; the newest where none is given."""
        id = id or self._newest.get(ns)
        return self.spaces.get(ns, {}).get(id) if id is not None else None

    def newest_first(self, ns: str | None) -> list[Stored]:
        """The checkpoints of a namespace, or of all, newest id first."""
        held = [self.spaces.get(ns, {})] if ns is not None else list(self.spaces.values())
        if len(held) == 1:
            return [held[0][id] for id in sorted(held[0], reverse=True)]
        every = [stored for space in held for stored in space.values()]
        return sorted(every, key=lambda stored: stored.put.id, reverse=True)

    def written(self, ns: str, id: str) -> dict[tuple[str, int], Write]:
        """The writes on top of a checkpoint, by task and index."""
        return self._writes.get((ns, id), {})

    def ordered_writes(self, ns: str, id: str) -> list[Write]:
        """The same in the order in which they are applied."""
        return sorted(self.written(ns, id).values(), key=lambda write: write.order)

    def all_writes(self) -> Iterator[tuple[str, str, list[Write]]]:
        """Namespace, checkpoint id and writes, in the order in which they were begun."""
        for (ns, id), held in self._writes.items():
            yield ns, id, list(held.values())

    # -- values -----------------------------------------------------------------------------------------------

    def channels(self, stored: Stored) -> list[str]:
        """The channels that have a value in a checkpoint."""
        put = stored.put
        return [*put.values, *put.lists, *put.at]

    def place(self, stored: Stored, channel: str) -> int | None:
        """The record that has a channel's value; None where it has none."""
        put = stored.put
        if channel in put.values or channel in put.lists:
            return stored.seq
        return put.at.get(channel)

    def raw(self, seq: int, channel: str) -> msgspec.Raw | None:
        """The encoded value in a record; None where it is a list, kept as a part. KeyError where it is missing."""
        put = self._by_seq[seq]
        return None if channel in put.lists else put.values[channel]

    def part(self, seq: int, channel: str) -> ListPart | None:
        """The part of a list that a record holds."""
        return self._by_seq[seq].lists.get(channel)

    def elements(self, seq: int, channel: str) -> list[bytes]:
        """The encoded elements of the list that a record holds. Not to be changed. KeyError where a part is missing."""
        ns = self._by_seq[seq].ns
        known = self._lists.get((ns, channel))
        parts: list[ListPart] = []
        at, last = seq, seq + 1
        while at and (known is None or at != known[0]):
            if at >= last:
                raise KeyError(at)
            part = self._by_seq[at].lists[channel]
            parts.append(part)
            at, last = part.base, at
        elements = known[1] if known is not None and at == known[0] and at else []
        if elements and at != seq and parts[-1].keep < len(elements):
            elements = elements[: parts[-1].keep]  # an older branch may still be asked for
        for part in reversed(parts):
            if len(elements) < part.keep:
                raise KeyError(part.base)
            del elements[part.keep :]
            elements.extend(map(bytes, part.add))
            if len(elements) != part.size:
                raise KeyError(part.base)
        self._lists[ns, channel] = seq, elements
        return elements


def is_list(value: Any) -> bool:
    """Is it kept in parts?"""
    return type(value) is list
