"""The time axis of a history: a bar for each call, reply, attempt and wait. Pure: spans and rows in, coordinates out.

A coordinate is a number of seconds since a step that stays the origin as long as a page is open, without the idle time
that is folded. What has ended never moves: a live page adds bars and widens the axis. What is open ends now.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from datetime import datetime
from typing import Final, Literal

import msgspec

from relight.history.narration import Row
from relight.server.pages.plots import Span
from relight.text import format as words

FOLDED_FROM: Final = 30.0
"""idle seconds that are shown to scale; longer periods are collapsed"""
FOLDED_TO: Final = 10.0
_TICKS: Final = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400, 604800)
_MAX_TICKS: Final = 4
_APART: Final = 40.0
"""percent of the axis between two texts"""
_FAR_APART: Final = 55.0
"""where the axis is narrow"""
_IDLE: Final = frozenset({"person", "limit", "queued", "dead"})

Kind = Literal["model", "tools", "person", "limit", "queued", "dead", "attempt"]


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """A bar of one row, in coordinates."""

    kind: Kind
    x: float
    width: float
    open: bool = False
    """it has not ended: it grows with the axis"""


class Idle(msgspec.Struct, frozen=True, kw_only=True):
    """A period in which no process works on the session."""

    kind: Kind
    begins: float
    ends: float

    @property
    def is_folded(self) -> bool:
        return self.ends - self.begins > FOLDED_FROM

    @property
    def spared(self) -> float:
        """Seconds that are left out of the axis."""
        return self.ends - self.begins - FOLDED_TO if self.is_folded else 0.0


class Tick(msgspec.Struct, frozen=True, kw_only=True):
    """A mark on the axis: a time of day, or a fold."""

    x: float
    text: str
    fold: bool = False
    before: bool = False
    """its text stands before its mark, where else it would not end on the axis"""
    near: bool = False
    """its text has no room on a narrow axis"""


class Axis:
    """Coordinates of times, and the bars of rows."""

    def __init__(
        self,
        spans: Sequence[Span],
        attempts: Sequence[float],
        *,
        origin: float,
        is_open: bool,
        shown: float | None = None,
        zoom: tuple[float, float] | None = None,
    ) -> None:
        """`origin`: the time with the coordinate 0. `is_open`: the last span has not ended. `shown`: where the rows of
        the page begin, if that is later than the first span. `zoom`: the times to show."""
        self.begins = spans[0].begins if spans else origin
        self.ends = max(spans[-1].ends if spans else origin, self.begins + 0.001)
        self.is_open = is_open
        self.idle = _idle(spans)
        self._attempts = attempts
        self._folds = [one for one in self.idle if one.is_folded]
        self._spared = [0.0]
        for one in self._folds:
            self._spared.append(self._spared[-1] + one.spared)
        self._shift = 0.0
        self._shift = self.x(origin)
        if shown is not None and self.begins < shown < self.ends:
            self._shift -= shown - self.begins
            self.begins = shown
        self.low, self.high = self.x(self.begins), self.x(self.ends)
        self.zoomed = zoom is not None
        if zoom is not None:
            low, high = sorted(max(self.begins, min(self.ends, one)) for one in zoom)
            self.low, self.high = self.x(low), max(self.x(high), self.x(low) + 0.001)

    def x(self, at: float) -> float:
        """The coordinate of a time."""
        after = bisect.bisect_right(self._folds, at, key=lambda one: one.begins)
        spared = self._spared[after]
        if after and at < self._folds[after - 1].ends:  # inside a fold: time passes slower there
            fold = self._folds[after - 1]
            spared = self._spared[after - 1] + (at - fold.begins) * fold.spared / (fold.ends - fold.begins)
        return at - self.begins - spared - self._shift

    @property
    def view(self) -> str:
        """The `viewBox` of every bar."""
        return f"{self.low:.3f} 0 {max(self.high - self.low, 0.001):.3f} 10"

    @property
    def caption(self) -> str:
        """What the axis covers, and what is folded."""
        text = words.duration(self.ends - self.begins)
        folded = sum(one.ends - max(one.begins, self.begins) for one in self._folds if one.ends > self.begins)
        return f"{text}; {words.duration(folded)} of idle time folded" if folded else text

    def percent(self, x: float) -> float:
        """A coordinate as a share of what is shown."""
        return 100 * (x - self.low) / max(self.high - self.low, 0.001)

    def ticks(self, clock: str = "%H:%M:%S") -> list[Tick]:
        """All folds that are shown and a few round times, in order; one too near to the last has no text."""
        room = next((one for one in _TICKS if (self.high - self.low) / one <= _MAX_TICKS), _TICKS[-1])
        first = self.begins - self.begins % room + room
        times = [first + n * room for n in range(min(1000, int((self.ends - first) // room) + 1))]
        inside = [at for at in times if not any(one.begins < at < one.ends for one in self._folds)]
        ticks = [Tick(x=self.x(at), text=f"{datetime.fromtimestamp(at).astimezone():{clock}}") for at in inside]
        ticks += [
            Tick(x=self.x(one.begins), text=words.duration(one.ends - one.begins), fold=True) for one in self._folds
        ]
        found: list[Tick] = []
        taken: list[float] = []
        apart: list[float] = []
        for one in sorted(
            (one for one in ticks if self.low <= one.x <= self.high), key=lambda one: (not one.fold, one.x)
        ):
            share = self.percent(one.x)
            before = share > 50
            begins, far = (share - _APART, share - _FAR_APART) if before else (share, share)
            if all(abs(begins - other) >= _APART for other in taken):
                taken.append(begins)
                near = any(abs(far - other) < _FAR_APART for other in apart)
                apart += [] if near else [far]
                found.append(msgspec.structs.replace(one, before=before, near=near))
            elif one.fold:
                found.append(Tick(x=one.x, text="", fold=True))
        return sorted(found, key=lambda one: one.x)

    def zooms(self) -> dict[str, str]:
        """Queries that show half, and twice as much; the newest half, since that is where one looks."""
        whole = self.ends - self.begins
        low, high = self._time(self.low), self._time(self.high)
        half, twice = high - (high - low) / 2, max(self.begins, high - 2 * (high - low))
        found = {"in": f"{half:.3f}-{high:.3f}"} if high - low > 0.1 else {}
        if self.zoomed and high - low < whole / 2:
            found["out"] = f"{twice:.3f}-{high:.3f}"
        return found

    def _time(self, x: float) -> float:
        """The time of a coordinate."""
        low, high = self.begins, self.ends
        for _ in range(50):  # x grows with the time, so that halving finds it
            middle = (low + high) / 2
            low, high = (middle, high) if self.x(middle) < x else (low, middle)
        return high

    def bars(self, row: Row) -> list[Bar]:
        """The bars of a row, without those of the calls under it."""
        at = row.at.timestamp()
        if row.rule:
            ends = next((one.begins for one in self.idle if one.kind == "dead" and one.begins > at), self.ends)
            ends = min([ends, *(one for one in self._attempts if one > at)])
            return [self._bar("attempt", at, ends)]
        if row.word == "model" and row.seconds is not None:
            return [self._bar("model", at - row.seconds, at)]
        if row.word == "tool":
            if row.seconds is not None and not row.begins:
                return [self._bar("tools", at - row.seconds, at)]
            ends = at + row.seconds if row.seconds is not None else self.ends if row.mark == "…" else at
            return [self._bar("tools", at, ends)]
        first = bisect.bisect_left(self.idle, at - 0.001, key=lambda one: one.begins)
        if row.word == "status" and first < len(self.idle) and self.idle[first].begins <= at + 0.001:
            return [self._bar(self.idle[first].kind, at, self.idle[first].ends)]
        return []

    def _bar(self, kind: Kind, begins: float, ends: float) -> Bar:
        x = self.x(begins)
        return Bar(kind=kind, x=x, width=max(0.0, self.x(ends) - x), open=self.is_open and ends >= self.ends)


def _idle(spans: Sequence[Span]) -> list[Idle]:
    """The idle periods, neighbours of one kind merged."""
    found: list[Idle] = []
    for span in spans:
        if span.activity not in _IDLE:
            continue
        last = found[-1] if found else None
        if last is not None and last.kind == span.activity and span.begins <= last.ends:
            found[-1] = Idle(kind=last.kind, begins=last.begins, ends=span.ends)
        else:
            found.append(Idle(kind=span.activity, begins=span.begins, ends=span.ends))
    return found
