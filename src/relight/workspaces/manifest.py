"""Reading snapshots: flat, by path, by difference. Directories with equal hashes are not read twice.

Everything returned was validated (`pool.objects`): no path can leave the root. Depth and number of names are bounded by
what is really stored: a few directories that reference one another again and again are not a million files.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from relight.errors import Corrupt
from relight.values.snapshot import Entry, Skipped, SnapshotRecord
from relight.workspaces.changes.classify import PATH_MAX_BYTES, join
from relight.workspaces.pool.objects import (
    CHUNK_BYTES,
    decode_chunks,
    decode_snapshot,
    page_refs,
    read_directory,
    snapshot_ref,
)
from relight.workspaces.pool.pool import Pool
from relight.workspaces.restore.openat import MAX_DEPTH

MAX_NAMES = 20_000_000
RISKY_MODES: Final = 0o7002
"""setuid, setgid, sticky, world-writable"""
MAX_UNCHECKED_NAMES: Final = 200_000
"""names that any snapshot may have; more must be at most MAX_NAMES_PER_STORED times what is stored"""
MAX_NAMES_PER_STORED: Final = 16
MAX_CACHED = 4096
_BELOW: Final = b"-"
"""a placeholder path for any directory that is not the root"""

Flat = dict[bytes, Entry]


class Manifests:
    """Reads the snapshots of a pool."""

    def __init__(self, pool: Pool, *, plain_modes: bool = False) -> None:
        """`plain_modes`: these snapshots come from an untrusted source, so RISKY_MODES are removed."""
        self._pool, self._mode_mask = pool, ~RISKY_MODES if plain_modes else ~0
        self._cached: dict[tuple[bytes, bool], dict[bytes, Entry]] = {}
        self._checked: set[bytes] = set()
        """directories whose files were checked to be as long as declared"""

    def record(self, snapshot: str) -> SnapshotRecord:
        ref = snapshot_ref(snapshot)
        if self._pool.find(ref) is None:
            raise Corrupt(f"snapshot {snapshot[:19]} is missing in {self._pool.location}")
        return decode_snapshot(self._pool.read(ref))

    def directory(self, ref: bytes, path: bytes) -> dict[bytes, Entry]:
        """The entries of a directory by name."""
        if len(path) > PATH_MAX_BYTES * 2 or path.count(b"/") > MAX_DEPTH:
            raise Corrupt("a snapshot deeper than any we write")
        key = (ref, not path)
        found = self._cached.get(key)
        if found is None:
            pages = read_directory(self._pool.read, ref, at_root=not path)
            found = {entry.name: self._plain(entry) for _, listed in pages for entry in listed}
            if len(self._cached) >= MAX_CACHED:
                self._cached.clear()
            self._cached[key] = found
        return found

    def _plain(self, entry: Entry) -> Entry:
        mode = entry.mode & self._mode_mask
        return entry if mode == entry.mode else msgspec.structs.replace(entry, mode=mode)

    def flat(self, tree: bytes) -> Flat:
        """All entries of a tree by path."""
        return dict(self._below(tree, b""))

    def _below(self, ref: bytes, path: bytes) -> Iterator[tuple[bytes, Entry]]:
        waiting = [(path, ref)]
        count = 0
        while waiting:
            at, tree = waiting.pop()
            for name, entry in self.directory(tree, at).items():
                count += 1
                if count == MAX_UNCHECKED_NAMES:
                    self.check_names(ref, path)
                yield join(at, name), entry
                if entry.kind == "dir":
                    waiting.append((join(at, name), entry.ref))

    def walk(self, snapshot: str) -> Iterator[tuple[bytes, Entry]]:
        """All entries of a snapshot one by one, a directory before its content."""
        return self._below(self.record(snapshot).tree, b"")

    def check(self, snapshot: str) -> None:
        """Corrupt if a file is longer or shorter than declared, or there are implausibly many names."""
        tree = self.record(snapshot).tree
        self.check_names(tree, b"")
        waiting = [tree]
        while waiting:
            ref = waiting.pop()
            if ref in self._checked:
                continue
            self._checked.add(ref)
            for entry in self.directory(ref, b"" if ref == tree else _BELOW).values():
                if entry.kind == "dir":
                    waiting.append(entry.ref)
                elif entry.kind in ("file", "big") and self._stored_bytes(entry) != entry.size_bytes:
                    self._checked.discard(ref)
                    raise Corrupt(f"{entry.name[:80]!r} is not the {entry.size_bytes} bytes that it says it has")

    def check_names(self, tree: bytes, path: bytes) -> None:
        """Corrupt if directories that reference one another make far more names than are stored.

        Each directory is read once, however often it is referenced.
        """
        below: dict[bytes, list[bytes]] = {}
        names: dict[bytes, int] = {}
        stored = 0
        waiting = [tree]
        while waiting:
            ref = waiting[-1]
            if ref not in below:
                entries = self.directory(ref, path if ref == tree else _BELOW).values()
                stored += len(entries)
                below[ref] = [entry.ref for entry in entries if entry.kind == "dir"]
                names[ref] = len(entries)
                waiting.extend({one for one in below[ref] if one not in below})
                continue
            waiting.pop()
            names[ref] += sum(names[one] for one in below[ref])
            below[ref] = []  # counted
        if names[tree] > min(MAX_NAMES, max(MAX_UNCHECKED_NAMES, stored * MAX_NAMES_PER_STORED)):
            raise Corrupt(f"a snapshot of {names[tree]:,} names that stores {stored:,}: more than we take")

    def _stored_bytes(self, entry: Entry) -> int:
        """The real size of a file, without decompressing anything."""
        refs = self._chunks(entry) if entry.kind == "big" else [entry.ref]
        total = 0
        for ref in refs:
            location = self._pool.find(ref)
            if location is None:
                raise Corrupt(f"object {ref.hex()[:12]} is missing in {self._pool.location}")
            total += location.raw_bytes
        return total

    def _chunks(self, entry: Entry) -> list[bytes]:
        """The chunks of a large file; Corrupt if there are more than its size allows."""
        chunks = decode_chunks(self._pool.read(entry.ref))
        if (len(chunks) - 1) * (CHUNK_BYTES // 2) > entry.size_bytes:
            raise Corrupt(f"{entry.name[:80]!r} has {len(chunks)} chunks and says it has {entry.size_bytes} bytes")
        return chunks

    def differing(self, one: bytes, other: bytes) -> tuple[Flat, Flat]:
        """Both sides of everything that differs; directories with the same hash are not read."""
        left: Flat = {}
        right: Flat = {}
        waiting = [(b"", one, other)]
        checked = False
        while waiting:
            path, a, b = waiting.pop()
            if a == b:
                continue
            if not checked and max(len(left), len(right)) > MAX_UNCHECKED_NAMES:
                checked = True
                for tree in (one, other):
                    self.check_names(tree, b"")
            mine, yours = self.directory(a, path), self.directory(b, path)
            for name in mine.keys() | yours.keys():
                x, y = mine.get(name), yours.get(name)
                if x == y:
                    continue
                at = join(path, name)
                if x is not None and y is not None and x.kind == y.kind == "dir":
                    waiting.append((at, x.ref, y.ref))
                self._add(left, at, x, deep=y is None or y.kind != "dir")
                self._add(right, at, y, deep=x is None or x.kind != "dir")
        return left, right

    def _add(self, flat: Flat, path: bytes, entry: Entry | None, *, deep: bool) -> None:
        if entry is None:
            return
        flat[path] = entry
        if deep and entry.kind == "dir":
            flat.update(self._below(entry.ref, path))

    def find(self, tree: bytes, path: bytes) -> Entry | None:
        """The entry at a path; a skip entry also covers everything below it."""
        ref, at, entry = tree, b"", None
        for name in path.split(b"/"):
            if entry is not None and entry.kind != "dir":
                return None
            entry = self.directory(ref, at).get(name)
            if entry is None:
                return None
            ref, at = entry.ref, join(at, name)
        return entry

    def skipped(self, tree: bytes) -> Iterator[Skipped]:
        """What was left out; directories without skipped entries are not read."""
        waiting = [(b"", tree)]
        count = 0
        while waiting:
            path, ref = waiting.pop()
            for name, entry in self.directory(ref, path).items():
                count += 1
                if count == MAX_UNCHECKED_NAMES:
                    self.check_names(tree, b"")
                if entry.kind == "skip":
                    reason = entry.ref.decode("ascii", "replace")
                    yield Skipped(path=join(path, name), reason=reason, size_bytes=entry.size_bytes)
                elif entry.kind == "dir" and entry.skipped:
                    waiting.append((join(path, name), entry.ref))

    def reachable(self, snapshot: str, seen: set[bytes]) -> Iterator[bytes]:
        """All objects a snapshot needs that are not in `seen`; they are added to it."""
        ref = snapshot_ref(snapshot)
        if ref in seen:
            return
        record = self.record(snapshot)
        seen.add(ref)
        yield ref
        waiting = [(b"", record.tree)]
        while waiting:
            path, tree = waiting.pop()
            if tree in seen:
                continue
            for one in {tree, *page_refs(self._pool.read(tree), tree)} - seen:
                seen.add(one)
                yield one
            for name, entry in self.directory(tree, path).items():
                if entry.kind == "dir":
                    waiting.append((join(path, name), entry.ref))
                elif entry.kind in ("file", "big") and entry.ref not in seen:
                    seen.add(entry.ref)
                    yield entry.ref
                    if entry.kind == "big":
                        for chunk in set(decode_chunks(self._pool.read(entry.ref))) - seen:
                            seen.add(chunk)
                            yield chunk

    def content(self, entry: Entry) -> Iterator[bytes]:
        """A file's bytes in pieces of bounded size."""
        left = entry.size_bytes
        for ref in self._chunks(entry) if entry.kind == "big" else [entry.ref]:
            piece = self._pool.read(ref)
            left -= len(piece)
            if left < 0:
                raise Corrupt(f"{entry.name[:80]!r} is longer than the {entry.size_bytes} bytes that it says it has")
            yield piece
        if left:
            raise Corrupt(f"{entry.name[:80]!r} is shorter than the {entry.size_bytes} bytes that it says it has")
