"""Remove content that no committed snapshot needs, while others go on writing.

Order: choose segments with enough dead bytes → remove their rows → only now ask which snapshots are committed → copy
what they need out of those segments, sync → remove the files. After the rows are gone no step that relies on these
segments can commit, and everything committed before is copied: no race is left to lose. A kill anywhere leaves segments
without a row; they are still read, and the next sweep ends them first.

The grace period is a courtesy on top: a segment written to within it is left alone, so that a writer between its
snapshot and its step need not capture again. A thorough sweep has none, waits for nobody, and leaves no dead byte: an
object that was kept only because others are differences from it goes too, and those are written whole.
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
"""a segment is rewritten when this much of it is dead"""

Live = Callable[[], Iterable[str]]


class Mode(NamedTuple):
    """How far a sweep goes."""

    thorough: bool = False
    """leave no dead byte, whoever is writing"""
    grace_seconds: float = 0.0
    """leave alone what was written to so recently"""


def sweep(pool: Pool, manifests: Manifests, live: Live, *, dry_run: bool, mode: Mode) -> SweepReport:
    """Remove, or only say what would be removed: both by the same choice."""
    pool.release()
    pool.look_again()
    sizes = pool.files()
    marked = _Marked(pool, manifests, live(), mode)
    chosen = [name for name in sizes if marked.is_worth_it(name, sizes[name])]
    if not dry_run:
        pool.rows.remove_segments(pool.key, [*chosen, *(pool.rowed - sizes.keys())])
        point("sweep.unrowed")
        pool.look_again()
        sizes = {**sizes, **pool.files()}
        chosen = [name for name in sizes if name not in pool.rowed]  # another sweeper's too: nobody relies on them
        marked = _Marked(pool, manifests, live(), mode)
    copies = [record for name in chosen for record in marked.copies(name, frozenset(chosen))]
    if not dry_run:
        _copy_on(pool, copies)
        for name in chosen:
            pool.discard(name)
        pool.release()
    removed = sum(sizes[name] for name in chosen) - pool.writer.would_take(copies)
    return SweepReport(
        segments_removed=len(chosen),
        bytes_removed=removed,
        objects_kept=len(marked.needed),
        bytes_kept=sum(sizes.values()) - removed,
    )


def _copy_on(pool: Pool, copies: list[Record]) -> None:
    if copies:
        pool.start_segment()
    for record in copies:
        pool.append(record)
    pool.sync()
    point("sweep.copied")


class _Marked:
    """What the live snapshots need, and so which bytes of a segment are dead."""

    def __init__(self, pool: Pool, manifests: Manifests, live: Iterable[str], mode: Mode) -> None:
        self._pool, self._mode = pool, mode
        self.needed: set[bytes] = set()
        for snapshot in live:
            for _ in manifests.reachable(snapshot, self.needed):
                pass
        self._bases = self._found_bases()
        self._lent = set() if mode.thorough else self._bases - self.needed
        self._written_after = time.time() - mode.grace_seconds

    def _found_bases(self) -> set[bytes]:
        """What needed objects are differences from, in whichever of their places they will be kept."""
        pool, needed = self._pool, self.needed
        listed = (pair for name in pool.files() for pair in pool.objects_in(name))
        return {place.base for ref, place in listed if place.has_base and ref in needed}

    def is_worth_it(self, name: str, size: int) -> bool:
        """Whether a segment is rewritten, or simply goes."""
        pool, mode = self._pool, self._mode
        if name not in pool.rowed:
            return True
        if not mode.thorough and (pool.is_busy(name) or pool.written_at(name) > self._written_after):
            return False
        if pool.is_scattered(name):
            return True
        kept = sum(pool.record_bytes(place) for _, place in self._kept(name))
        dead = size - pool.fixed_bytes(name) - kept
        if dead <= 0:
            return mode.thorough and any(self._has_dead_base(place) for _, place in self._kept(name))
        return mode.thorough or kept == 0 or dead >= DEAD_SHARE * size

    def _kept(self, name: str, chosen: frozenset[str] = frozenset()) -> list[tuple[bytes, Location]]:
        """What is needed of a segment and does not lie elsewhere too, in one that was not chosen."""
        wanted = [(ref, place) for ref, place in self._pool.objects_in(name) if ref in self.needed or ref in self._lent]
        return [(ref, place) for ref, place in wanted if self._place_to_keep(ref, chosen) == place]

    def _place_to_keep(self, ref: bytes, chosen: frozenset[str]) -> Location | None:
        """One place an object; of what others are differences from the whole one."""
        whole = self._pool.whole(ref, chosen) if ref in self._bases else None
        return whole or self._pool.found_outside(ref, chosen)

    def _has_dead_base(self, place: Location) -> bool:
        return place.has_base and place.base not in self.needed and place.base not in self._lent

    def copies(self, name: str, chosen: frozenset[str]) -> Iterable[Record]:
        """The records of a segment as they are written to another one."""
        for ref, place in self._kept(name, chosen):
            if self._has_dead_base(place):
                yield compress.pack(ref, self._pool.read(ref))
                continue
            payload = self._pool.payload(place)
            if payload is not None:
                yield Record(ref, place.form, place.raw_bytes, payload, place.base)
            elif not self._was_copied(ref, chosen):
                raise Corrupt(f"object {ref.hex()[:12]} is missing in segment {name}")

    def _was_copied(self, ref: bytes, chosen: frozenset[str]) -> bool:
        """Whether another sweeper was faster, and has put it where it may stay."""
        self._pool.look_again()
        place = self._place_to_keep(ref, chosen)
        return place is not None and place.segment in self._pool.rowed and place.segment not in chosen
