"""Totals of cost and tool calls over many sessions: by day, model, agent, label and tool. For the page, the
interface and `relight list --costs`.

Every step is read once: the totals remember up to which step each session was read, and a view reads only what was
committed since, for a bounded time. Until all steps are read the totals say how many are left. They are in memory; a
new server reads again.

A cost is what the agent or provider reported, else computed from list prices when the step was committed. The cost of a
tool is an estimate: that of the reply which requested the call, in equal parts among the calls of that reply.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import islice
from math import ceil, log
from typing import Any, Final

import msgspec

from relight.errors import Corrupt
from relight.history.events import Event
from relight.journal.formats.registry import detect
from relight.library.facade import Relight
from relight.text import format as words
from relight.values.info import SessionInfo
from relight.values.view import Result

MAX_SESSIONS: Final = 10_000
"""newest sessions that are counted"""
_BUCKET: Final = 1.15
"""ratio of two neighbouring bounds of durations: a percentile is at most 15 % too high"""
_MAX_OPEN: Final = 1000
"""calls of one session that have begun and not ended"""
_NO_MODEL: Final = "unknown model"
_NO_AGENT: Final = "own program"
_CHUNK: Final = 500
"""steps between two looks at the clock"""


class Spent(msgspec.Struct, kw_only=True):
    """A sum of replies."""

    cost: float = 0.0
    tokens: int = 0
    replies: int = 0
    unpriced: int = 0
    """replies whose cost is unknown; they are not in `cost`"""

    def add(self, usage: dict[str, Any]) -> None:
        """Add the usage of one reply."""
        names = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
        self.tokens += sum(usage.get(name) or 0 for name in names)
        self.cost += usage.get("cost") or 0.0
        self.replies += 1
        self.unpriced += usage.get("cost") is None


class ToolTotals(msgspec.Struct, kw_only=True):
    """The calls of one tool."""

    calls: int = 0
    errors: int = 0
    unknown: int = 0
    """calls of unknown outcome, and those in doubt now"""
    cost: float = 0.0
    """estimate: a share of the replies that requested them"""
    durations: dict[int, int] = {}
    """bucket to number of calls whose duration is known"""

    def ended(self, status: str, seconds: float | None) -> None:
        """Count the end of a call."""
        self.calls += 1
        self.errors += status == "error"
        self.unknown += status == "unknown"
        if seconds is not None:
            bucket = ceil(log(max(seconds, 1e-6), _BUCKET))
            self.durations[bucket] = self.durations.get(bucket, 0) + 1

    def percentile(self, share: float) -> float | None:
        """Seconds within which this share of the calls ended, from the buckets; None without any."""
        total, seen = sum(self.durations.values()), 0
        for bucket in sorted(self.durations):
            seen += self.durations[bucket]
            if seen >= share * total:
                return float(_BUCKET**bucket)
        return None


class _Read(msgspec.Struct, kw_only=True):
    """How far a session was read."""

    seq: int
    open: dict[str, tuple[str, float]] = {}
    """call id to (tool, when it began)"""


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """The totals of one period, as displayed."""

    days: int
    sessions: int
    complete: bool
    """false: there are more sessions than are counted"""
    steps_left: int
    """steps of these sessions that are not read yet"""
    whole: Spent
    by_day: dict[str, Spent]
    by_model: dict[str, Spent]
    by_agent: dict[str, Spent]
    by_label: dict[str, Spent]
    tools: dict[str, ToolTotals]


class UsageTotals:
    """Totals of all sessions, read step by step. Thread-safe."""

    def __init__(self, rl: Relight) -> None:
        self._rl = rl
        self._lock = threading.Lock()
        self._read: dict[str, _Read] = {}
        self._spent: dict[tuple[str, str, str], Spent] = {}
        """(day, session, model) to what was spent"""
        self._tools: dict[tuple[str, str], ToolTotals] = {}
        """(day, tool) to its calls"""
        self.steps_read = 0
        """of all sessions since the start, for tests"""

    def of(self, now: datetime, *, days: int, seconds: float) -> Totals:
        """The totals of the last `days`, after reading new steps for at most about so many seconds."""
        since = now - timedelta(days=days)
        return self.over(self._rl.sessions.list(since_us=round(since.timestamp() * 1e6)), since, days, seconds=seconds)

    def over(self, found: Iterable[SessionInfo], since: datetime, days: int, *, seconds: float) -> Totals:
        """The totals of these sessions since then, so many days ago."""
        infos = list(islice(found, MAX_SESSIONS + 1))
        counted = {info.id: info for info in infos[:MAX_SESSIONS]}
        with self._lock:
            self._advance(counted.values(), time.monotonic() + seconds)
            left = sum(max(0, info.seq - self._read[info.id].seq) for info in counted.values() if info.id in self._read)
            left += sum(info.seq for info in counted.values() if info.id not in self._read)
            return self._totals(counted, since.date().isoformat(), days, left, complete=len(infos) <= MAX_SESSIONS)

    def _advance(self, infos: Iterable[SessionInfo], deadline: float) -> None:
        for info in infos:
            begins = int((info.parent or "@0").rpartition("@")[2])
            mine = self._read.setdefault(info.id, _Read(seq=begins, open={}))
            while mine.seq < info.seq:
                if time.monotonic() > deadline:
                    return
                upto = min(info.seq, mine.seq + _CHUNK)
                try:
                    for event in self._rl.history.events(info.id, after=mine.seq, upto=upto):
                        self._add(info, mine, event)
                except Corrupt:
                    upto = info.seq  # the session's own page reports the damage; the rest of it is not counted
                mine.seq = upto

    def _add(self, info: SessionInfo, mine: _Read, event: Event) -> None:
        self.steps_read += 1
        day, at = event.at.date().isoformat(), event.at.timestamp()
        if event.usage is not None:
            key = (day, info.id, info.model or _NO_MODEL)
            self._spent.setdefault(key, Spent()).add(event.usage)
            self._share(info, event, day)
        for intent in event.intents:
            if len(mine.open) < _MAX_OPEN:
                mine.open[intent["id"]] = (intent["name"], at)
        for outcome in event.outcomes:
            name, began = mine.open.pop(outcome["id"], ("", at))
            # A result carried over by a fork or a rewind is no new call, and one without an intent has no name.
            if name and not outcome["carried_from"]:
                seconds = None if outcome["synthetic"] else at - began
                self._tool(day, name).ended(outcome["status"], seconds)
        if mine.open:
            self._answered(info, mine, event, day)

    def _answered(self, info: SessionInfo, mine: _Read, event: Event, day: str) -> None:
        """Count the calls whose results this step has in its messages: Codex reports no outcome beside them."""
        messages, at = _messages(event), event.at.timestamp()
        views = detect(messages, info.provider).read(messages) if messages else ()
        for block in [block for view in views for block in view.blocks if isinstance(block, Result)]:
            name, began = mine.open.pop(block.call, ("", at))
            if name:
                self._tool(day, name).ended(block.status, None if block.synthetic else at - began)

    def _share(self, info: SessionInfo, event: Event, day: str) -> None:
        """Give each call that this reply requests its part of the reply's cost."""
        messages = _messages(event)
        cost = (event.usage or {}).get("cost")
        if not messages or not cost:
            return
        format = detect(messages, info.provider)
        names = [site.name for message in messages for site in format.calls(message)]
        for name in names:
            self._tool(day, name).cost += cost / len(names)

    def _in_doubt(self, infos: Iterable[SessionInfo], since: str) -> Iterable[str]:
        """The tool of each call that is in doubt now: begun last, and without an end."""
        for info in infos:
            begun = list(self._read[info.id].open.values()) if info.in_doubt and info.id in self._read else []
            for name, at in begun[-info.in_doubt :]:
                if datetime.fromtimestamp(at, UTC).date().isoformat() >= since:
                    yield name

    def _tool(self, day: str, name: str) -> ToolTotals:
        return self._tools.setdefault((day, name), ToolTotals(durations={}))

    def _totals(self, infos: dict[str, SessionInfo], since: str, days: int, left: int, *, complete: bool) -> Totals:
        whole = Spent()
        by: list[defaultdict[str, Spent]] = [defaultdict(Spent) for _ in range(4)]
        for (day, session, model), one in self._spent.items():
            info = infos.get(session)
            if info is None or day < since:
                continue
            labels = [f"{key}={value}" for key, value in info.labels.items()]
            _sum(whole, one)
            for table, names in zip(by, ([day], [model], [info.agent or _NO_AGENT], labels), strict=True):
                for name in names:
                    _sum(table[name], one)
        tools: dict[str, ToolTotals] = {}
        for (day, name), each in self._tools.items():
            if day >= since:
                total = tools.setdefault(name, ToolTotals(durations={}))
                total.calls += each.calls
                total.errors += each.errors
                total.unknown += each.unknown
                total.cost += each.cost
                total.durations = dict(Counter(total.durations) + Counter(each.durations))
        for name in self._in_doubt(infos.values(), since):
            tools.setdefault(name, ToolTotals(durations={})).unknown += 1
        by_day, by_model, by_agent, by_label = (dict(table) for table in by)
        return Totals(
            days=days,
            sessions=len(infos),
            complete=complete,
            steps_left=left,
            whole=whole,
            by_day=by_day,
            by_model=by_model,
            by_agent=by_agent,
            by_label=by_label,
            tools=tools,
        )


def _messages(event: Event) -> list[dict[str, Any]]:
    return [one for one in event.messages if isinstance(one, dict)]


def _sum(total: Spent, one: Spent) -> None:
    total.cost += one.cost
    total.tokens += one.tokens
    total.replies += one.replies
    total.unpriced += one.unpriced


def sentence(found: dict[str, Any]) -> str:
    """The result in one sentence, with what is not known."""
    whole = found["total"]
    text = f"{words.money(whole['cost'])} and {words.tokens(whole['tokens'])} tokens"
    text += f" in {words.count(found['days'], 'day')}, {words.count(found['sessions'], 'session')}."
    if whole["unpriced"]:
        text += f" {words.count(whole['unpriced'], 'reply has', 'replies have')} no known price and are not in it."
    if not found["complete"]:
        text += " Older sessions of this time are not counted."
    if found["steps_left"]:
        text += f" {words.count(found['steps_left'], 'step')} are not read yet."
    return text


def totals_document(totals: Totals) -> dict[str, Any]:
    """Totals as JSON: of the interface, of the page, and of `relight list --costs`."""

    def rows(table: dict[str, Spent]) -> list[dict[str, Any]]:
        return [_spent(name, table[name]) for name in sorted(table, key=lambda name: (-table[name].cost, name))]

    tools = sorted(totals.tools.items(), key=lambda pair: (-pair[1].calls, pair[0]))
    return {
        "days": totals.days,
        "sessions": totals.sessions,
        "complete": totals.complete,
        "steps_left": totals.steps_left,
        "total": _spent("total", totals.whole),
        "by_day": [_spent(day, totals.by_day[day]) for day in sorted(totals.by_day)],
        "by_model": rows(totals.by_model),
        "by_agent": rows(totals.by_agent),
        "by_label": rows(totals.by_label),
        "tools": [
            {
                "name": name,
                "calls": one.calls,
                "errors": one.errors,
                "unknown": one.unknown,
                "error_rate": round(one.errors / one.calls, 4) if one.calls else None,
                "p50": _rounded(one.percentile(0.5)),
                "p95": _rounded(one.percentile(0.95)),
                "cost": round(one.cost, 6),
            }
            for name, one in tools
        ],
    }


def _spent(name: str, one: Spent) -> dict[str, Any]:
    return {
        "name": name,
        "cost": round(one.cost, 6),
        "tokens": one.tokens,
        "replies": one.replies,
        "unpriced": one.unpriced,
    }


def _rounded(seconds: float | None) -> float | None:
    return round(seconds, 4) if seconds is not None else None
