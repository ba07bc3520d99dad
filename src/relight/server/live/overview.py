"""What changed among all sessions since the last look: status, attention, progress. And what the metrics learn from it.

A look costs what the unfinished sessions cost, not what all of them do; it is taken more rarely the longer it takes.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from relight.errors import RelightError
from relight.history.documents import session_document
from relight.library.facade import Relight
from relight.server.metrics import Metrics
from relight.values.info import SessionInfo
from relight.values.status import Status

_LEAST_SECONDS: Final = 0.5
_SHARE: Final = 10
"""a look may take a tenth of the time"""
_MAX: Final = 1000
_NEW: Final = 50
_MAX_STEPS: Final = 1000
_REMEMBERED: Final = 5000
_TELLING: Final = frozenset({"attempt", "status", "mark"})


class Shown(NamedTuple):
    """What a list would show differently."""

    status: str
    seq: int
    attempt: int
    name: str | None
    attention: str | None
    doing: str | None

    @classmethod
    def of(cls, info: SessionInfo) -> Shown:
        """From a session."""
        attention = info.attention.kind if info.attention is not None else None
        doing = info.doing.tool if info.doing is not None else None
        return cls(info.status, info.seq, info.attempt, info.name, attention, doing)


News = tuple[int, str, Any]
"""number, kind of event, document"""


class Overview:
    """Remembers what was told last."""

    def __init__(self, rl: Relight, metrics: Metrics) -> None:
        self._rl, self._metrics = rl, metrics
        self._told: OrderedDict[str, Shown] = OrderedDict()
        self._unfinished: set[str] = set()
        self._counts: dict[Status, int] | None = None
        self._began = datetime.now(UTC)
        self._number = 0
        self._next = 0.0

    def look(self) -> list[News]:
        """What is new; nothing where the last look is not long enough ago."""
        now = time.monotonic()
        if now < self._next:
            return []
        news = list(self._look())
        took = time.monotonic() - now
        self._next = now + max(_LEAST_SECONDS, took * _SHARE)
        return news

    def _look(self) -> Iterator[News]:
        counts, first = self._rl.counts(), self._counts is None
        moved, self._counts = counts != self._counts, counts
        for info in self._seen(moved=moved):
            shown, before = Shown.of(info), self._told.pop(info.id, None)
            self._told[info.id] = shown
            if first or shown == before:
                continue
            self._measure(info, before)
            self._number += 1
            yield self._number, "session", session_document(info)
        while len(self._told) > _REMEMBERED:
            self._told.popitem(last=False)
        if moved and not first:
            self._number += 1
            yield self._number, "counts", counts

    def _seen(self, *, moved: bool) -> list[SessionInfo]:
        """The unfinished, those that were it a moment ago, and where their number moved the newest too."""
        seen = {info.id: info for info in self._rl.unfinished(most=_MAX)}
        before, self._unfinished = self._unfinished, set(seen)
        for one in before - seen.keys():
            found = self._rl.find(one)
            if found is not None:
                seen[one] = found
        for info in self._rl.sessions(limit=_NEW) if moved else ():
            seen.setdefault(info.id, info)
        return list(seen.values())

    def _measure(self, info: SessionInfo, before: Shown | None) -> None:
        """Count the steps that came since; read those that tell how an attempt went."""
        if before is None and info.created_at < self._began:
            return  # it was there before we were, and nobody looked at it
        after = before.seq if before is not None else _start_of(info)
        if info.seq <= after:
            return
        try:
            rows = self._rl.checkpoints_between(info.id, after=max(after, info.seq - _MAX_STEPS), upto=info.seq)
            for row in rows:
                self._metrics.steps.labels(row.kind).inc()
                if row.kind in _TELLING:
                    for event in self._rl.steps(info.id, after=row.seq - 1, upto=row.seq):
                        self._metrics.event(event)
        except RelightError as error:
            self._metrics.store_errors.labels(error.code).inc()


def _start_of(info: SessionInfo) -> int:
    """What a fork has from its parent is not its own."""
    return int(info.parent.rpartition("@")[2]) if info.parent is not None else 0
