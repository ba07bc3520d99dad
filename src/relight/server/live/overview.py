"""Changes among all sessions since the last poll (status, attention, progress), for the general stream and metrics.

A poll reads the unfinished sessions only, and polls are rarer the longer they take.
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

_MIN_SECONDS: Final = 0.5
_SHARE: Final = 10
"""polling may take a tenth of the time"""
_MAX_PAUSE_SECONDS: Final = 2.0
"""but a busy machine or a slow store keeps no page waiting longer than this"""
_MAX_UNFINISHED: Final = 1000
_LISTED: Final = 100
"""the newest sessions: the first page of a list"""
_LIST_SECONDS: Final = 5.0
"""how often those are read while something is written: a change of a name or label is no step and changes no count"""
_MAX_STEPS: Final = 1000
_MAX_CACHED: Final = 5000
_COUNTED_KINDS: Final = frozenset({"attempt", "status", "mark"})
"""kinds of steps whose content the metrics need"""


class Row(NamedTuple):
    """The fields of a session that a list shows; an event is sent when one of them changes."""

    status: str
    seq: int
    attempt: int
    name: str | None
    labels: dict[str, str]
    attention: str | None
    doing: str | None

    @classmethod
    def of(cls, info: SessionInfo) -> Row:
        attention = info.attention.kind if info.attention is not None else None
        doing = info.doing.tool if info.doing is not None else None
        return cls(info.status, info.seq, info.attempt, info.name, info.labels, attention, doing)


Change = tuple[int, str, Any]
"""number, kind of event, document"""


class Overview:
    """Compares all sessions with what was reported before."""

    def __init__(self, rl: Relight, metrics: Metrics) -> None:
        self._rl, self._metrics = rl, metrics
        self._reported: OrderedDict[str, Row] = OrderedDict()
        self._unfinished: set[str] = set()
        self._counts: dict[Status, int] | None = None
        self._began_at = datetime.now(UTC)
        self._number = 0
        self._next_poll = self._next_list = 0.0

    @property
    def is_due(self) -> bool:
        """Whether a poll is allowed again."""
        return time.monotonic() >= self._next_poll

    def poll(self) -> list[Change]:
        """The changes since the last poll."""
        began = time.monotonic()
        changes = list(self._changes())
        ended = time.monotonic()
        self._next_poll = ended + min(max(_MIN_SECONDS, (ended - began) * _SHARE), _MAX_PAUSE_SECONDS)
        return changes

    def _changes(self) -> Iterator[Change]:
        counts, first = self._rl.sessions.counts(), self._counts is None
        moved, self._counts = counts != self._counts, counts
        for info in self._candidates(moved=moved):
            row, before = Row.of(info), self._reported.pop(info.id, None)
            self._reported[info.id] = row
            if first or row == before:
                continue
            self._measure(info, before)
            self._number += 1
            yield self._number, "session", session_document(info)
        while len(self._reported) > _MAX_CACHED:
            self._reported.popitem(last=False)
        if moved and not first:
            self._number += 1
            yield self._number, "counts", counts

    def _candidates(self, *, moved: bool) -> list[SessionInfo]:
        """Sessions that may have changed: the unfinished ones, and those that were unfinished at the last poll."""
        found = {info.id: info for info in self._rl.sessions.unfinished(most=_MAX_UNFINISHED)}
        before, self._unfinished = self._unfinished, set(found)
        for session in before - found.keys():
            info = self._rl.sessions.find(session)
            if info is not None:
                found[session] = info
        # A session that began and ended between two polls is in neither set, but it has changed the counts.
        if moved or time.monotonic() >= self._next_list:
            self._next_list = time.monotonic() + _LIST_SECONDS
            for one in self._rl.sessions.list(limit=_LISTED):
                found.setdefault(one.id, one)
        return list(found.values())

    def _measure(self, info: SessionInfo, before: Row | None) -> None:
        """Count the steps committed since the last poll, and what the attempts among them report."""
        if before is None and info.created_at < self._began_at:
            return  # it existed before this server: which of its steps are new is not known
        after = before.seq if before is not None else _start_of(info)
        if info.seq <= after:
            return
        try:
            rows = self._rl.history.checkpoints(info.id, after=max(after, info.seq - _MAX_STEPS), upto=info.seq)
            for row in rows:
                self._metrics.steps.labels(row.kind).inc()
                if row.kind in _COUNTED_KINDS:
                    for event in self._rl.history.events(info.id, after=row.seq - 1, upto=row.seq):
                        self._metrics.event(event)
        except RelightError as error:
            self._metrics.store_errors.labels(error.code).inc()


def _start_of(info: SessionInfo) -> int:
    """Steps that a fork shares with its parent are not counted again."""
    return int(info.parent.rpartition("@")[2]) if info.parent is not None else 0
