"""The plots of a session: the timeline of its activities and its cumulative cost. Pure: events in, shapes out.

Each has a caption with the result and a table with the data, for readers who cannot see the plot.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final, Literal

import msgspec

from relight.history.events import Event
from relight.journal.status import LIMITS
from relight.text import format as words

Activity = Literal["model", "tools", "person", "limit", "queued", "dead"]
ACTIVITIES: Final[tuple[tuple[Activity, str], ...]] = (
    ("model", "model"),
    ("tools", "tools"),
    ("person", "waits for a person"),
    ("limit", "waits for a limit"),
    ("queued", "queued"),
    ("dead", "not running"),
)
WIDTH: Final = 960
_ROW: Final = 18
_MAX_POINTS: Final = 400
_SPARK_POINTS: Final = 24


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """A period of one activity, with the step at its end."""

    activity: Activity
    seq: int
    begins: float
    ends: float


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """A rectangle of the timeline."""

    activity: Activity
    seq: int
    x: float
    y: int
    width: float
    title: str


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    """The timeline: which activity took how long."""

    shapes: list[Shape]
    rules: list[tuple[float, str]]
    """attempts: (x, number)"""
    rows: list[tuple[str, str, str]]
    """activity, time, share"""
    caption: str
    height: int = _ROW * len(ACTIVITIES) + 16
    width: int = WIDTH


class Burn(msgspec.Struct, frozen=True, kw_only=True):
    """The plot of cumulative cost and tokens over time."""

    times: list[float]
    costs: list[float]
    tokens: list[int]
    attempts: list[float]
    budget: float | None
    caption: str
    rows: list[tuple[str, str, str]]


def timeline_of(spans: Sequence[Span], attempts: Sequence[tuple[float, int]]) -> Timeline:
    """The timeline of spans in order; `attempts` are (time, number)."""
    if not spans:
        return Timeline(shapes=[], rules=[], rows=[], caption="No time has passed yet.")
    begins, ends = spans[0].begins, max(spans[-1].ends, spans[0].begins + 0.001)
    scale = WIDTH / (ends - begins)
    order = {activity: row for row, (activity, _) in enumerate(ACTIVITIES)}
    shapes = [
        Shape(
            activity=span.activity,
            seq=span.seq,
            x=round((span.begins - begins) * scale, 1),
            y=order[span.activity] * _ROW + 12,
            width=round(max(1.0, (span.ends - span.begins) * scale), 1),
            title=f"@{span.seq} {span.activity}, {words.duration(span.ends - span.begins)}",
        )
        for span in _merged(spans, 1 / scale)
    ]
    sums = {
        activity: sum(span.ends - span.begins for span in spans if span.activity == activity)
        for activity, _ in ACTIVITIES
    }
    whole = max(sum(sums.values()), 0.001)
    rows = [
        (name, words.duration(sums[activity]), f"{100 * sums[activity] / whole:.0f} %") for activity, name in ACTIVITIES
    ]
    working = sums["model"] + sums["tools"]
    caption = f"Of {words.duration(whole)}, {words.duration(working)} were work"
    if sums["dead"] >= 1:
        caption += f", {words.duration(sums['dead'])} it was not running"
    waits: dict[Activity, str] = {
        "person": "it waited for a person",
        "limit": "it waited for a limit",
        "queued": "it was queued",
    }
    for activity, text in waits.items():
        if sums[activity] >= 1:
            caption += f", {words.duration(sums[activity])} {text}"
    rules = [(round((at - begins) * scale, 1), str(number)) for at, number in attempts]
    return Timeline(shapes=shapes, rules=rules, rows=rows, caption=caption + ".")


def _merged(spans: Sequence[Span], pixel: float) -> list[Span]:
    """Merge spans of one activity that are less than two pixels apart, so that the page stays small."""
    kept: list[Span] = []
    last: dict[Activity, int] = {}
    for span in spans:
        index = last.get(span.activity)
        if index is not None and span.begins - kept[index].ends < 2 * pixel:
            kept[index] = msgspec.structs.replace(kept[index], ends=span.ends)
        elif span.ends - span.begins > pixel / 4 or index is None:
            last[span.activity] = len(kept)
            kept.append(span)
    return kept


class Measure:
    """Collects spans, attempts and costs in one pass over the events, for both plots."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.attempts: list[tuple[float, int]] = []
        self.points: list[tuple[float, float, int]] = []
        self.times: list[tuple[int, float]] = []
        """seq and time of each step"""
        self._last: float | None = None
        self._cost, self._tokens, self._open = 0.0, 0, 0
        self._state: Activity | None = None
        self._known = False
        self._begins: float | None = None

    def read(self, events: Iterable[Event]) -> Measure:
        """Read events, in order; returns itself."""
        for event in events:
            self._event(event)
        return self

    def _event(self, event: Event) -> None:
        now = event.at.timestamp()
        self._begins = now if self._begins is None else self._begins
        if self._last is not None and now > self._last:
            self.spans.append(Span(activity=self._activity(event), seq=event.seq, begins=self._last, ends=now))
        self._last = now
        self.times.append((event.seq, now))
        if event.started is not None and (not self.attempts or self.attempts[-1][1] != event.started["number"]):
            self.attempts.append((now, event.started["number"]))
            self._state, self._open = None, 0
        self._open = max(0, self._open + len(event.intents) - len(event.outcomes))
        self._usage(event, now)
        status = (event.status or {}).get("status")
        if status in ("waiting", "queued", "failed", "terminated", "halted", "completed", "archived"):
            queued: Activity = "limit" if is_limit(event.status) else "queued"
            states: dict[str, Activity] = {"waiting": "person", "queued": queued}
            self._state = states.get(status, "dead")
        elif status in ("working", "spawning"):
            self._state = None

    def until(self, now: datetime, seq: int) -> None:
        """The time since the last step, which grows while the page is open."""
        if self._last is not None and now.timestamp() > self._last:
            activity = self._state or ("tools" if self._open else "model")
            self.spans.append(Span(activity=activity, seq=seq, begins=self._last, ends=now.timestamp()))
            self._last = now.timestamp()

    def _activity(self, event: Event) -> Activity:
        if self._state is not None:
            return self._state
        if event.started is not None and self.attempts:
            return "dead"
        return "tools" if self._open or event.outcomes else "model"

    def going_on(self, now: float, *, live: bool) -> Span | None:
        """The span from the last step to now, which has not ended; None if no time has passed."""
        if self._last is None or now <= self._last:
            return None
        working: Activity = "tools" if self._open else "model" if live else "dead"
        return Span(activity=self._state or working, seq=self.times[-1][0], begins=self._last, ends=now)

    def _usage(self, event: Event, now: float) -> None:
        usage = event.usage or {}
        self._tokens += sum(usage.get(name) or 0 for name in ("input_tokens", "output_tokens"))
        if usage.get("cost") is not None:
            self._known = True
            self._cost += usage["cost"]
            self.points.append((now, self._cost, self._tokens))

    def timeline(self) -> Timeline:
        """The timeline of what was read."""
        return timeline_of(self.spans, self.attempts)

    def burn(self, budget: float | None = None) -> Burn | None:
        """The cost plot; None if no cost was reported."""
        if not self._known:
            return None
        assert self._begins is not None and self._last is not None
        begins, ends = self._begins, max(self._last, self._begins + 1.0)
        last_cost, last_tokens = self.points[-1][1:]
        points = [(begins, 0.0, 0), *thinned(self.points, _MAX_POINTS), (ends, last_cost, last_tokens)]
        hours = max((ends - begins) / 3600, 1e-9)
        total = self.points[-1][1]
        caption = f"{words.money(total)} so far"
        if ends - begins > 60:
            caption += f", {words.money(total / hours)} an hour on average"
        last = next((at for at, number in reversed(self.attempts) if number > 1), None)
        if last is not None:
            before = max((cost for at, cost, _ in self.points if at <= last), default=0.0)
            caption += f"; {words.money(total - before)} since the last resume"
        rows = [(_clock(at), words.money(cost), words.tokens(tokens)) for at, cost, tokens in thinned(self.points, 24)]
        return Burn(
            times=[round(at, 3) for at, _, _ in points],
            costs=[round(cost, 6) for _, cost, _ in points],
            tokens=[tokens for _, _, tokens in points],
            attempts=[round(at, 3) for at, number in self.attempts if number > 1],
            budget=budget,
            caption=caption + ".",
            rows=rows,
        )


def is_limit(status: dict[str, Any] | None) -> bool:
    """Whether a change of status says that a limit of the provider is waited for."""
    failure, reason = (status or {}).get("failure") or {}, (status or {}).get("reason") or ""
    return failure.get("kind") in LIMITS or str(reason).startswith("usage limit")


def _clock(at: float) -> str:
    return f"{datetime.fromtimestamp(at).astimezone():%Y-%m-%d %H:%M:%S}"


def thinned(points: Sequence[Any], limit: int) -> list[Any]:
    """At most `limit` points, evenly spaced, with the first and the last."""
    if len(points) <= limit:
        return list(points)
    step = (len(points) - 1) / (limit - 1)
    return [points[round(number * step)] for number in range(limit)]


def spark(points: Sequence[tuple[float, float, int]]) -> str:
    """The cost curve as the `points` of an SVG polyline, 72 by 16; empty for fewer than two points."""
    if len(points) < 2:
        return ""
    begins, ends = points[0][0], max(points[-1][0], points[0][0] + 0.001)
    top = max(points[-1][1], 1e-9)
    chosen = thinned(points, _SPARK_POINTS)
    return " ".join(f"{72 * (at - begins) / (ends - begins):.1f},{15 - 14 * cost / top:.1f}" for at, cost, _ in chosen)
