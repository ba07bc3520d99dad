"""Read-only access: comparing a directory with snapshots and planning a restore, without storing anything.

What is captured from the disk is in a temporary file that vanishes on close, so reading verbs leave no row, no segment
and no cached state. A snapshot taken here must not be committed: no other process can read it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Set
from pathlib import Path
from typing import IO

from relight.errors import Corrupt, NotFound, StoreError, StoreUnavailable
from relight.journal.files import restore_plan as journal
from relight.ports.workspace import SegmentIndex
from relight.values.snapshot import Change, Entry, Skipped, Snapshot
from relight.workspaces.manifest import Manifests
from relight.workspaces.pool.objects import OBJECT_MAX_BYTES, digest
from relight.workspaces.pool.pool import Pool
from relight.workspaces.pool.segment import Location, Record
from relight.workspaces.remote.prefix import RemotePrefix
from relight.workspaces.workspace import TreeWorkspace

_TEMPORARY_SEGMENT = ""
"""the segment name of temporary objects"""


class TemporaryPool(Pool):
    """Reads the stored content; what is put lasts until it is closed."""

    def __init__(self, directory: Path, key: str, rows: SegmentIndex, remote: RemotePrefix | None = None) -> None:
        super().__init__(directory, key, rows, remote)
        self._temporary: dict[bytes, Location] = {}
        self._file: IO[bytes] | None = None

    def _find_reliable(self, ref: bytes) -> Location | None:
        return self._temporary.get(ref) or super()._find_reliable(ref)

    def find(self, ref: bytes) -> Location | None:
        return self._temporary.get(ref) or super().find(ref)

    def find_whole(self, ref: bytes, avoid: Set[str] = frozenset()) -> Location | None:
        location = self._temporary.get(ref)
        return location if location is not None and not location.has_base else super().find_whole(ref, avoid)

    def append(self, record: Record) -> None:
        with self._lock:
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="relight-look-")  # noqa: SIM115 - closed with the pool
            at = self._file.seek(0, os.SEEK_END)
            self._file.write(record.payload)
            self._file.flush()
            self._temporary[record.ref] = Location(
                _TEMPORARY_SEGMENT, at, len(record.payload), record.raw_bytes, record.form, record.base
            )

    def payload(self, location: Location) -> bytes | None:
        if location.segment != _TEMPORARY_SEGMENT:
            return super().payload(location)
        with self._lock:
            assert self._file is not None
            return os.pread(self._file.fileno(), location.payload_bytes, location.offset)

    def close(self) -> None:
        super().close()
        if self._file is not None:
            self._file.close()


class ReadOnlyWorkspace(TreeWorkspace):
    """A workspace that stores nothing."""

    pool_kind = TemporaryPool
    saves_state = False

    def is_one_name(self, directory: bytes, one: bytes, other: bytes) -> bool:
        """Never: asking would write into the directory. The restore itself asks before it writes."""
        return False


class TreeContent:
    """Access to the snapshots of a pool, whatever became of the directory. Implements `ports.workspace.Content`."""

    def __init__(self, pool: Pool) -> None:
        self._pool, self._manifests = pool, Manifests(pool)

    def diff(self, before: str, after: str) -> tuple[Change, ...]:
        old, new = self._manifests.record(before), self._manifests.record(after)
        return journal.diff(*self._manifests.differing(old.tree, new.tree))

    def entries(self, snapshot: str) -> dict[bytes, Entry]:
        return self._manifests.flat(self._manifests.record(snapshot).tree)

    def walk(self, snapshot: str) -> Iterator[tuple[bytes, Entry]]:
        return self._manifests.walk(snapshot)

    def pieces(self, entry: Entry) -> Iterator[bytes]:
        return self._manifests.content(entry)

    def read(self, snapshot: str, path: bytes) -> bytes:
        entry = self._manifests.find(self._manifests.record(snapshot).tree, path)
        if entry is None or entry.kind not in ("file", "big", "link"):
            raise NotFound(os.fsdecode(path), what="file in this snapshot")
        return entry.ref if entry.kind == "link" else b"".join(self._manifests.content(entry))

    def skipped(self, snapshot: str) -> tuple[Skipped, ...]:
        return tuple(sorted(self._manifests.skipped(self._manifests.record(snapshot).tree), key=lambda one: one.path))

    def objects(self, snapshots: Iterable[str]) -> Iterator[bytes]:
        seen: set[bytes] = set()
        for snapshot in snapshots:
            for ref in self._manifests.reachable(snapshot, seen):
                yield self._pool.read(ref)

    def take_in(self, objects: Iterable[bytes], snapshots: Iterable[str]) -> dict[str, Snapshot]:
        try:
            for data in objects:
                if len(data) > OBJECT_MAX_BYTES:
                    raise Corrupt("an object over its bound")
                self._pool.put(digest(data), data)
            found = self._relied_on(list(snapshots))
            self._pool.check_room()
            self._pool.sync()
        except BaseException:
            self._pool.rollback()
            raise
        return found

    def _relied_on(self, snapshots: list[str]) -> dict[str, Snapshot]:
        """These snapshots, if complete; `Pool.has` collects their segments, which all of them share."""
        self._pool.clear_used()
        seen: set[bytes] = set()
        for snapshot in snapshots:
            for ref in self._manifests.reachable(snapshot, seen):
                if not self._pool.has(ref):
                    raise Corrupt(f"snapshot {snapshot[:19]} is not whole")
            self._manifests.check(snapshot)
        segments = tuple(sorted(self._pool.used))
        return {snapshot: self._snapshot(snapshot, segments) for snapshot in snapshots}

    def _snapshot(self, snapshot: str, segments: tuple[str, ...]) -> Snapshot:
        record = self._manifests.record(snapshot)
        return Snapshot(
            id=snapshot,
            pool=self._pool.key,
            segments=segments,
            files=record.files,
            size_bytes=record.size_bytes,
            skipped=record.skipped,
            heads=record.heads,
        )

    def broken(self, snapshots: Iterable[str]) -> dict[str, str]:
        found: dict[str, str] = {}
        seen: set[bytes] = set()
        for snapshot in snapshots:
            try:
                for ref in self._manifests.reachable(snapshot, seen):
                    self._pool.read(ref)
                self._manifests.check(snapshot)
            except StoreError as error:
                if isinstance(error, StoreUnavailable) and self._pool.is_remote:
                    raise  # unreachable storage is no damage
                found[snapshot] = error.message
                seen = set()  # so that another snapshot that shares the damaged object reports it too
        return found

    def close(self) -> None:
        self._pool.close()
