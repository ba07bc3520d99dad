"""In-memory index of a thread: its checkpoints and writes, and how values are assembled from records.

Built from the records in order; only their outlines are decoded. Records never change, so the index only grows, except
after a rewind, when it is rebuilt. A thread with pages is opened at the last page; the records between two pages are
read and verified as a group, when the first of them is needed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from relight.frameworks.langgraph.conversation import put_together
from relight.frameworks.langgraph.records import ListPart, MapPart, Named, Page, Put, Writes, page_of, unpack
from relight.journal.codec import Undecodable
from relight.sessions.record_log import Entry
from relight.values.session import GENESIS

PAGE_RECORDS: Final = 256
"""number of records after which the next checkpoint carries a page"""

Encoded = msgspec.Raw | Sequence[bytes] | Mapping[str, bytes]
"""a value; the elements of a list; the entries of a mapping"""

Link = tuple[int, bytes]
"""a record with a page, and the digest of its step"""


class Write(NamedTuple):
    """One value written by a task."""

    task: str
    at: int
    channel: str
    raw: msgspec.Raw
    path: str
    seq: int = 0

    @property
    def order(self) -> tuple[str, str, int]:
        """Sort key in LangGraph's order: task path, task id, index."""
        return self.path, self.task, self.at


class Stored(NamedTuple):
    """A checkpoint and its record."""

    seq: int
    ns: str
    id: str
    parent: str | None
    within: Index

    @property
    def put(self) -> Put:
        """The record, read on demand."""
        return self.within.record(self.seq)


class _Gap(NamedTuple):
    """Unread records between two that carry pages."""

    after: Link
    upto: Link


class Index:
    """Index of a thread's checkpoints, writes and values."""

    def __init__(self, read: Callable[[Link, Link], list[Entry]] | None = None) -> None:
        self._read = read
        self.spaces: dict[str, dict[str, Stored]] = {}
        """namespace -> checkpoint id -> checkpoint"""
        self._newest: dict[str, str] = {}
        self._by_seq: dict[int, Put] = {}
        self._writes: dict[tuple[str, str], dict[tuple[str, int], Write]] = {}
        self._lists: dict[tuple[str, str], tuple[int, list[bytes]]] = {}
        """channel -> the list assembled last"""
        self._maps: dict[tuple[str, str], tuple[int, dict[str, bytes]]] = {}
        """channel -> the mapping assembled last"""
        self.size_bytes = 0
        self._page: Link = (0, GENESIS)
        self._loose: list[Named] = []
        """the records since the last page"""
        self._gaps: dict[int, _Gap] = {}
        """gaps by the seq of their last record"""
        self._ends: list[int] = []
        self._unread: dict[tuple[str, str], list[int]] = {}
        """checkpoint -> gaps that have writes on top of it"""

    def add(self, entry: Entry) -> None:
        """Add one record after all others. Undecodable."""
        record = self._keep(entry)
        if isinstance(record, Put):
            self._name(entry.seq, record.ns, record.id, record.parent)
            if record.page is not None and self._is_next(record.page):
                self._page, self._loose = (entry.seq, entry.digest), []
                return
            self._loose.append((entry.seq, record.ns, record.id, record.parent, True))
        else:
            self._loose.append((entry.seq, record.ns, record.id, None, False))

    def _keep(self, entry: Entry) -> Put | Writes:
        record = unpack(entry.data)
        self.size_bytes += len(entry.data)
        if isinstance(record, Put):
            self._by_seq[entry.seq] = record
            return record
        held = self._writes.setdefault((record.ns, record.id), {})
        for index, channel, raw in record.writes:
            known = held.get((record.task, index))
            if known is None or known.seq <= entry.seq:
                held[record.task, index] = Write(record.task, index, channel, raw, record.path, entry.seq)
        return record

    def _name(self, seq: int, ns: str, id: str, parent: str | None) -> None:
        self.spaces.setdefault(ns, {})[id] = Stored(seq, ns, id, parent, self)
        if id >= self._newest.get(ns, ""):
            self._newest[ns] = id

    # -- pages ------------------------------------------------------------------------------------------------

    def due_page(self) -> Page | None:
        """The page that the next checkpoint has to carry; None if none is due."""
        return page_of(self._page, self._loose) if len(self._loose) >= PAGE_RECORDS else None

    def _is_next(self, page: Page) -> bool:
        return (page.back, page.digest) == (self._page[0], self._page[1].hex())

    def open(self, entry: Entry, read_one: Callable[[int, bytes], Entry | None]) -> bool:
        """Begin with a record that carries a page and those its pages lead to; False where they do not fit.

        `read_one`: the entry of a seq and digest.
        """
        pages: list[tuple[Entry, Put, Page]] = []
        at: Entry | None = entry
        try:
            while at is not None:
                record = unpack(at.data)
                if not isinstance(record, Put) or record.page is None:
                    return False
                page = record.page
                pages.append((at, record, page))
                if not page.back:
                    break
                at = read_one(page.back, bytes.fromhex(page.digest)) if page.back < at.seq else None
            if at is None:
                return False
            for at, record, page in reversed(pages):
                self._turn(at, record, page)
        except (Undecodable, IndexError, ValueError):
            return False
        return True

    def _turn(self, entry: Entry, record: Put, page: Page) -> None:
        spaces = page.spaces
        held = [self.spaces.setdefault(ns, {}) for ns in spaces]
        for seq, number, id, parent in page.puts:
            held[number][id] = Stored(seq, spaces[number], id, parent, self)
        for ns, newest in {spaces[number]: id for _, number, id, _ in sorted(page.puts, key=_by_id)}.items():
            self._newest[ns] = max(newest, self._newest.get(ns, ""))
        for _, number, id in page.writes:
            unread = self._unread.setdefault((spaces[number], id), [])
            if entry.seq not in unread[-1:]:
                unread.append(entry.seq)
        self._gaps[entry.seq] = _Gap((page.back, bytes.fromhex(page.digest)), (entry.seq, entry.digest))
        self._ends.append(entry.seq)
        self.size_bytes += len(entry.data)
        self._by_seq[entry.seq] = record
        self._name(entry.seq, record.ns, record.id, record.parent)
        self._page = entry.seq, entry.digest

    def _fill(self, end: int) -> None:
        """Read the records of a gap, once."""
        gap = self._gaps.get(end)
        if gap is None:
            return
        assert self._read is not None
        for entry in self._read(gap.after, gap.upto):
            self._keep(entry)
        del self._gaps[end]

    def record(self, seq: int) -> Put:
        """The record of a checkpoint. KeyError if it is missing."""
        found = self._by_seq.get(seq)
        if found is None:
            at = bisect_left(self._ends, seq)
            if at < len(self._ends):
                self._fill(self._ends[at])
            found = self._by_seq[seq]
        return found

    # -- finding ----------------------------------------------------------------------------------------------

    def find(self, ns: str, id: str | None) -> Stored | None:
        """The checkpoint of an id, or the newest one."""
        id = id or self._newest.get(ns)
        return self.spaces.get(ns, {}).get(id) if id is not None else None

    def newest_first(self, ns: str | None) -> list[Stored]:
        """The checkpoints of a namespace, or of all, newest id first."""
        held = [self.spaces.get(ns, {})] if ns is not None else list(self.spaces.values())
        if len(held) == 1:
            return [held[0][id] for id in sorted(held[0], reverse=True)]
        every = [stored for space in held for stored in space.values()]
        return sorted(every, key=lambda stored: stored.id, reverse=True)

    def written(self, ns: str, id: str) -> dict[tuple[str, int], Write]:
        """The writes on top of a checkpoint, by task and index."""
        for end in self._unread.get((ns, id), ()):
            self._fill(end)
        return self._writes.get((ns, id), {})

    def ordered_writes(self, ns: str, id: str) -> list[Write]:
        """The writes on top of a checkpoint, in the order of application."""
        return sorted(self.written(ns, id).values(), key=lambda write: write.order)

    # -- values -----------------------------------------------------------------------------------------------

    def channels(self, stored: Stored) -> list[str]:
        """The channels that have a value in a checkpoint."""
        put = stored.put
        return [*put.values, *put.lists, *put.maps, *put.at]

    def seq_of(self, stored: Stored, channel: str) -> int | None:
        """The record that has a channel's value; None if it has no value."""
        put = stored.put
        if channel in put.values or channel in put.lists or channel in put.maps:
            return stored.seq
        return put.at.get(channel)

    def encoded(self, seq: int, channel: str) -> Encoded:
        """The whole encoded value of a channel, not to be modified. KeyError if a part is missing."""
        put = self.record(seq)
        if channel in put.lists:
            return self.elements(seq, channel)
        return self.entries(seq, channel) if channel in put.maps else put.values[channel]

    def elements(self, seq: int, channel: str) -> list[bytes]:
        """The encoded elements of the list in a record."""
        ns = self.record(seq).ns
        known = self._lists.get((ns, channel))
        parts: list[ListPart] = []
        at, last = seq, seq + 1
        while at and (known is None or at != known[0]):
            if at >= last:
                raise KeyError(at)
            part = self.record(at).lists[channel]
            parts.append(part)
            at, last = part.base, at
        elements = known[1] if known is not None and at == known[0] and at else []
        if elements and at != seq and parts[-1].keep < len(elements):
            elements = elements[:]  # an older branch may still be asked for
        self._lists.pop((ns, channel), None)  # it is used up, also where the parts do not fit
        try:
            for part in reversed(parts):
                add = list(map(bytes, part.add))
                elements = put_together(elements, keep=part.keep, then=part.then, add=add, size=part.size)
        except ValueError:
            raise KeyError(seq) from None
        self._lists[ns, channel] = seq, elements
        return elements

    def entries(self, seq: int, channel: str) -> dict[str, bytes]:
        """The encoded entries of the mapping in a record."""
        ns = self.record(seq).ns
        known = self._maps.get((ns, channel))
        parts: list[MapPart] = []
        at, last = seq, seq + 1
        while at and (known is None or at != known[0]):
            if at >= last:
                raise KeyError(at)
            part = self.record(at).maps[channel]
            parts.append(part)
            at, last = part.base, at
        entries = dict(known[1]) if known is not None and at else {}
        for part in reversed(parts):
            for key in part.gone:
                del entries[key]
            entries.update((key, bytes(raw)) for key, raw in part.entries.items())
            if len(entries) != part.size:
                raise KeyError(part.base)
        self._maps[ns, channel] = seq, entries
        return entries


def _by_id(named: tuple[int, int, str, str | None]) -> str:
    return named[2]
