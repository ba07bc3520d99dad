"""What a page has to know about all steps of a session, read once: a step is never changed, so only new ones are read.

A session of 100,000 steps is opened without reading them for each request.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

import msgspec

from relight.errors import NotFound
from relight.history.loading import chain_of
from relight.journal.lineage import stretches
from relight.ports.store import CheckpointRow
from relight.values.info import SessionInfo

if TYPE_CHECKING:
    from relight.library.facade import Relight

_MAX_CACHED: Final = 200


class Outline(msgspec.Struct, kw_only=True):
    """The steps of a session that are not simply the next one. Grows with the session."""

    upto: int = 0
    at_us: int = 0
    """time of the step `upto`: shows whether the journal is still the one that was read"""
    bases: dict[int, int] = {}
    """of the steps whose base is not the one before them"""
    resets: list[int] = []
    turned: bool = False
    """there is a rewind or a reset"""
    rewound: bool = False
    marks: list[int] = []
    attempted: int = 0
    """the step at which the newest attempt begins"""
    captured: int = 0
    """the newest step with a snapshot of files"""
    captures: list[int] = []

    def add(self, row: CheckpointRow) -> None:
        """Take the next step in."""
        self.upto, self.at_us = row.seq, row.at_us
        if row.base != row.seq - 1:
            self.bases[row.seq] = row.base
        if row.kind == "reset":
            self.resets.append(row.seq)
        self.rewound |= row.kind == "rewind"
        self.turned |= row.kind in ("rewind", "reset")
        if row.kind == "mark":
            self.marks.append(row.seq)
        self.attempted = row.seq if row.kind == "attempt" else self.attempted
        if row.snapshots:
            self.captured = row.seq
            self.captures.append(row.seq)


class _Outlines:
    """The outlines of one store's sessions. Thread-safe; the one that was not asked for the longest is forgotten."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.of: OrderedDict[str, tuple[Outline, threading.Lock]] = OrderedDict()


_CACHES: Final[WeakKeyDictionary[Relight, _Outlines]] = WeakKeyDictionary()
_LOCK: Final = threading.Lock()


def outline_of(rl: Relight, info: SessionInfo) -> Outline:
    """The outline of a session as it is now. Shared: it must not be modified. NotFound."""
    with _LOCK:
        cache = _CACHES.setdefault(rl, _Outlines())
    with cache.lock:
        outline, lock = cache.of.pop(info.id) if info.id in cache.of else (Outline(), threading.Lock())
        cache.of[info.id] = outline, lock
        while len(cache.of) > _MAX_CACHED:
            cache.of.popitem(last=False)
    with lock:
        rows = checkpoint_rows(rl, info, after=max(0, outline.upto - 1), upto=info.seq)
        known = bool(rows) and (rows[0].seq, rows[0].at_us) == (outline.upto, outline.at_us)
        if outline.upto and not known:  # removed and imported again, or seen ahead of `info`
            outline = Outline()
            cache.of[info.id] = outline, lock
            rows = checkpoint_rows(rl, info, after=0, upto=info.seq)
        for row in rows:
            if row.seq > outline.upto:
                outline.add(row)
    return outline


def checkpoint_rows(rl: Relight, info: SessionInfo, *, after: int = 0, upto: int | None = None) -> list[CheckpointRow]:
    """Steps of a session and of its ancestors, without bodies. NotFound."""
    record = rl.store.find(info.id)
    if record is None:
        raise NotFound(info.id)
    upto = info.seq if upto is None else upto
    return [
        row
        for stretch in stretches(chain_of(rl.store, record.identity), after=after, upto=upto)
        for row in rl.store.checkpoints(stretch.session, after=stretch.after, upto=stretch.upto)
    ]
