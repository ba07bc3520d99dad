"""Captured directories: the block of the last scan, the hash of the stored object, and the entries.

Entries are read from the pool when needed.
"""

from __future__ import annotations

from typing import NamedTuple

from relight.values.snapshot import Entry
from relight.workspaces.changes import scan
from relight.workspaces.changes.ignore import Rules
from relight.workspaces.pool.compress import Base
from relight.workspaces.pool.objects import digest, encode_index, encode_pages, read_directory
from relight.workspaces.pool.pool import Pool


class Page(NamedTuple):
    """One stored page of a directory."""

    ref: bytes
    base: Base | None
    """the base for the next version's delta"""


class Node:
    """One captured directory and its stored form."""

    __slots__ = ("_stats", "block", "entries", "is_exact", "mode", "pages", "path", "recheck", "ref", "rules")

    def __init__(
        self, path: bytes, mode: int, *, block: bytes = b"", ref: bytes = b"", recheck: frozenset[bytes] = frozenset()
    ) -> None:
        self.path, self.mode, self.block, self.ref, self.recheck = path, mode, block, ref, recheck
        self.entries: dict[bytes, Entry] | None = None if ref else {}
        self.pages: dict[bytes, Page] = {}
        """by first name"""
        self.rules: Rules | None = None
        self.is_exact = False
        """whether it is known that only the listed spelling of a name leads to a file"""
        self._stats: dict[bytes, scan.Stat] | None = None

    @property
    def stats(self) -> dict[bytes, scan.Stat]:
        if self._stats is None:
            self._stats = scan.parse(self.block)
        return self._stats

    def set_stats(self, stats: dict[bytes, scan.Stat], block: bytes) -> None:
        self._stats, self.block = stats, block

    def current_block(self) -> bytes:
        """The block, rebuilt if only single names were compared since the last scan."""
        if not self.block and self._stats is not None:
            self.block = scan.build(self._stats)
        return self.block

    def load_entries(self, pool: Pool) -> dict[bytes, Entry]:
        """The entries by name, read from the pool if necessary."""
        if self.entries is None:
            bases: dict[bytes, Base] = {}

            def read(ref: bytes) -> bytes:
                data, bases[ref] = pool.read_based(ref)
                return data

            entries: dict[bytes, Entry] = {}
            for page, listed in read_directory(read, self.ref, at_root=not self.path):
                self.pages[listed[0].name if listed else b""] = Page(page, bases[page])
                entries.update((entry.name, entry) for entry in listed)
            self.entries = entries
        return self.entries

    def store(self, pool: Pool) -> Entry:
        """Store the directory; returns its entry for the parent."""
        entries = self.load_entries(pool)
        ordered = [entries[name] for name in sorted(entries)]
        former, self.pages = self.pages, {}
        only = next(iter(former.values())) if len(former) == 1 else None
        for first, data in encode_pages(ordered):
            page, ref = former.get(first, only), digest(data)
            if page is None or page.ref != ref:
                page = Page(ref, pool.put_based(ref, data, page.base if page is not None else None))
            self.pages[first] = page
        self.ref = self._stored_index(pool)
        return self.entry(ordered)

    def _stored_index(self, pool: Pool) -> bytes:
        """The hash of the only page, or of a stored list of pages."""
        refs = [page.ref for page in self.pages.values()]
        if len(refs) == 1:
            return refs[0]
        index = encode_index(refs)
        ref = digest(index)
        pool.put_hashes(ref, index)
        return ref

    def entry(self, entries: list[Entry]) -> Entry:
        files = size = skipped = 0
        for one in entries:
            kind = one.kind
            if kind == "file":
                files += 1
                size += one.size_bytes
            elif kind == "dir":
                files += one.files
                size += one.size_bytes
                skipped += one.skipped
            elif kind == "skip":
                skipped += 1
            else:
                files += 1
                size += one.size_bytes
        name = self.path.rpartition(b"/")[2]
        return Entry(name=name, kind="dir", mode=self.mode, ref=self.ref, size_bytes=size, files=files, skipped=skipped)
