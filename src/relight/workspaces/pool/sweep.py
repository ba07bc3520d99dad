"""Sweep: removes content that no committed snapshot needs, while other processes keep writing.

Order: choose segments with enough dead bytes; remove their rows; only then read which snapshots are committed; copy
what they need out of those segments, sync; delete the files. Once the rows are gone no step that depends on these
segments can be committed, and everything committed before is copied, so there is no race. A kill anywhere leaves
unregistered segments; they can still be read, and the next sweep removes them first.

The grace period is an optimisation: a recently written segment is spared, so that a writer between its snapshot and its
step need not capture again. A thorough sweep has none and leaves no dead byte: a dead object that was kept only as the
base of deltas is removed too, and those are written whole.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from relight.errors import Corrupt
from relight.ports.faults import point
from relight.values.snapshot import SweepReport
from relight.workspaces.manifest import Manifests
from relight.workspaces.pool import compress
from relight.workspaces.pool.pool import Pool
from relight.workspaces.pool.segment import Location, Record

DEAD_SHARE: Final = 0.25
"""a segment is rewritten if at least this share of it is dead"""

Live = Callable[[], Iterable[str]]


class Mode(NamedTuple):
    """How thorough a sweep is."""

    thorough: bool = False
    """leave no dead byte, even in segments that are being written"""
    grace_seconds: float = 0.0
    """spare segments written to within this time"""


def sweep(pool: Pool, manifests: Manifests, live: Live, *, dry_run: bool, mode: Mode) -> SweepReport:
    """Remove dead content; `dry_run` reports what would be removed, by the same choice."""
    pool.release()
    pool.refresh()
    sizes = pool.files()
    live_objects = _LiveObjects(pool, manifests, live(), mode)
    chosen = [name for name in sizes if live_objects.should_rewrite(name, sizes[name])]
    if not dry_run:
        pool.rows.remove_segments(pool.key, [*chosen, *(pool.registered - sizes.keys())])
        point("sweep.unrowed")
        pool.refresh()
        sizes = {**sizes, **pool.files()}
        chosen = [name for name in sizes if name not in pool.registered]  # another sweeper's too
        live_objects = _LiveObjects(pool, manifests, live(), mode)
    copies = [record for name in chosen for record in live_objects.copies(name, frozenset(chosen))]
    if not dry_run:
        _write_copies(pool, copies)
        for name in chosen:
            pool.discard(name)
        pool.release()
    removed = sum(sizes[name] for name in chosen) - pool.writer.estimate_bytes(copies)
    return SweepReport(
        segments_removed=len(chosen),
        bytes_removed=removed,
        objects_kept=len(live_objects.needed),
        bytes_kept=sum(sizes.values()) - removed,
    )


def _write_copies(pool: Pool, copies: list[Record]) -> None:
    if copies:
        pool.start_segment()
    for record in copies:
        pool.append(record)
    pool.sync()
    point("sweep.copied")


class _LiveObjects:
    """The objects that live snapshots need, and what follows for each segment."""

    def __init__(self, pool: Pool, manifests: Manifests, live: Iterable[str], mode: Mode) -> None:
        self._pool, self._mode = pool, mode
        self.needed: set[bytes] = set()
        for snapshot in live:
            for _ in manifests.reachable(snapshot, self.needed):
                pass
        self._bases = self._find_bases()
        self._kept_as_bases = set() if mode.thorough else self._bases - self.needed
        self._written_after = time.time() - mode.grace_seconds

    def _find_bases(self) -> set[bytes]:
        """The bases of needed objects, in any of their locations."""
        pool, needed = self._pool, self.needed
        listed = (pair for name in pool.files() for pair in pool.objects_in(name))
        return {location.base for ref, location in listed if location.has_base and ref in needed}

    def should_rewrite(self, name: str, size: int) -> bool:
        """Whether a segment is to be rewritten or removed."""
        pool, mode = self._pool, self._mode
        if name not in pool.registered:
            return True
        if not mode.thorough and (pool.is_busy(name) or pool.written_at(name) > self._written_after):
            return False
        if pool.is_scattered(name):
            return True
        kept = sum(pool.record_bytes(location) for _, location in self._objects_to_keep(name))
        dead = size - pool.fixed_bytes(name) - kept
        if dead <= 0:
            return mode.thorough and any(self._has_dead_base(location) for _, location in self._objects_to_keep(name))
        return mode.thorough or kept == 0 or dead >= DEAD_SHARE * size

    def _objects_to_keep(self, name: str, chosen: frozenset[str] = frozenset()) -> list[tuple[bytes, Location]]:
        """The needed objects of a segment that have no better location outside of `chosen`."""
        wanted = [
            (ref, location)
            for ref, location in self._pool.objects_in(name)
            if ref in self.needed or ref in self._kept_as_bases
        ]
        return [(ref, location) for ref, location in wanted if self._location_to_keep(ref, chosen) == location]

    def _location_to_keep(self, ref: bytes, chosen: frozenset[str]) -> Location | None:
        """The one location to keep of an object; for a base, one where it is whole."""
        whole = self._pool.find_whole(ref, chosen) if ref in self._bases else None
        return whole or self._pool.find_avoiding(ref, chosen)

    def _has_dead_base(self, location: Location) -> bool:
        return location.has_base and location.base not in self.needed and location.base not in self._kept_as_bases

    def copies(self, name: str, chosen: frozenset[str]) -> Iterable[Record]:
        """The records of a segment that have to be written to another one."""
        for ref, location in self._objects_to_keep(name, chosen):
            if self._has_dead_base(location):
                yield compress.pack(ref, self._pool.read(ref))
                continue
            payload = self._pool.payload(location)
            if payload is not None:
                yield Record(ref, location.form, location.raw_bytes, payload, location.base)
            elif not self._was_copied(ref, chosen):
                raise Corrupt(f"object {ref.hex()[:12]} is missing in segment {name}")

    def _was_copied(self, ref: bytes, chosen: frozenset[str]) -> bool:
        """Whether a concurrent sweep has already copied the object to a segment that stays."""
        self._pool.refresh()
        location = self._location_to_keep(ref, chosen)
        return location is not None and location.segment in self._pool.registered and location.segment not in chosen
