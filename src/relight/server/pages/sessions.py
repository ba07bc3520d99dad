"""View of `/`: the list of sessions, with filters and order from the query string."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

import msgspec

from relight.history.listing import place_of
from relight.ports.store import Place
from relight.text import format as words
from relight.text.safe import shortened
from relight.values.info import SessionInfo
from relight.values.status import STATUSES, Status

if TYPE_CHECKING:
    from relight.library.facade import Relight

PAGE: Final = 100
SEARCH_PAGE: Final = 50
SCANNED: Final = 1000
"""sessions that are read for an order or a filter that has no index"""
SINCE: Final = {"1h": 1, "8h": 8, "1d": 24, "7d": 168, "30d": 720}
SORTS: Final = {"created": True, "name": False, "updated": True, "steps": True, "cost": True}
"""by what the list can be ordered -> whether downwards, unless it is reversed"""
ADOPTABLE: Final = 50
_MAX_NOW: Final = 160
_CURSOR: Final = re.compile(r"(.{1,200})~([0-9A-Za-z-]{1,64})")


class Filters(msgspec.Struct, frozen=True, kw_only=True):
    """Filters and order of the list. Invalid values of the query string are ignored."""

    status: str = ""
    """one, or several with commas as in the API"""
    agent: str = ""
    provider: str = ""
    directory: str = ""
    since: str = ""
    q: str = ""
    label: str = ""
    sort: str = "created"
    reversed: bool = False
    archived: bool = False
    before: str = ""

    @property
    def any(self) -> bool:
        """Whether any filter is set."""
        return bool(self.status or self.agent or self.provider or self.directory or self.since or self.q or self.label)

    @property
    def descending(self) -> bool:
        """Whether the list goes downwards."""
        return SORTS[self.sort] != self.reversed

    @property
    def order(self) -> str:
        """The order as the library names it."""
        return ("-" if self.descending else "") + self.sort

    def query(self, **changes: str) -> str:
        """The URL of the same list with some values changed, on its first page unless a cursor is given."""
        known = {
            "status": self.status,
            "agent": self.agent,
            "provider": self.provider,
            "directory": self.directory,
            "since": self.since,
            "q": self.q,
            "label": self.label,
            "sort": self.sort if self.sort != "created" else "",
            "reversed": "1" if self.reversed else "",
            "archived": "1" if self.archived else "",
        }
        given = {name: value for name, value in (known | changes).items() if value}
        return "/" + (f"?{urlencode(given)}" if given else "")

    def words(self) -> str:
        """The filters as text, for messages."""
        parts = {name: getattr(self, name) for name in ("status", "agent", "provider", "directory", "since", "label")}
        texts = [f"{name}={value}" for name, value in parts.items() if value]
        return ", ".join([*texts, *([f"“{self.q}”"] if self.q else [])])


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the list."""

    id: str
    href: str
    title: str
    named: bool
    ref: str
    status: Status
    glyph: str
    role: str
    quiet: bool
    problem: bool
    """it needs a person; the keys `n` and `p` go to it"""
    ended_ms: int
    """time of its last change, for what this browser has not seen"""
    attempt: int
    agent: str
    where: str
    where_full: str
    now: str
    cure: str
    made_at: datetime
    made_age: str
    saved_at: datetime | None
    saved_age: str
    cost: str
    cost_tree: str
    rate: str
    parent: str | None
    seq: int


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """One page of the list, with totals and links."""

    filters: Filters
    lines: list[Line]
    total: int
    archived: int
    older: str | None
    """URL of the next page"""
    newer: str | None
    scanned: int | None = None
    """number of sessions that were read; None: all of them"""
    agents: list[str] = []
    directories: list[str] = []
    counts: dict[str, int] = {}


def filters_of(given: Mapping[str, str]) -> Filters:
    """The filters of a query string."""

    def text(name: str) -> str:
        return given.get(name, "").replace("\0", "")[:200].strip()

    statuses = [one.strip() for one in text("status").split(",")]
    return Filters(
        status=",".join(one for one in STATUSES if one in statuses),
        agent=text("agent"),
        provider=text("provider"),
        directory=text("directory"),
        since=text("since") if text("since") in SINCE else "",
        q=text("q"),
        label=text("label") if "=" in text("label") else "",
        sort=text("sort") if text("sort") in SORTS else "created",
        reversed=bool(text("reversed")),
        archived=bool(text("archived")),
        before=text("before") if _CURSOR.fullmatch(text("before")) else "",
    )


def listing(rl: Relight, filters: Filters, now: datetime) -> Listing:
    """One page of the sessions that match the filters."""
    counts = rl.sessions.counts()
    size = SEARCH_PAGE if filters.q else PAGE
    found, scanned = _found(rl, filters, now, limit=None if filters.directory else size + 1), None
    if filters.directory:  # has no index: a bounded number is read, and the page says how many
        read = list(islice(found, SCANNED + 1))
        scanned = SCANNED if len(read) > SCANNED else None
        found = (info for info in read[:SCANNED] if _is_there(info, filters))
    infos = list(islice(found, size + 1))
    shown = infos[:size]
    older = filters.query(before=_cursor(shown[-1], filters)) if len(infos) > size else None
    unserved = rl.queues.unserved()
    return Listing(
        filters=filters,
        lines=[line_of(info, now, unserved) for info in shown],
        total=sum(counts.values()),
        archived=counts.get("archived", 0),
        older=older,
        newer=filters.query() if filters.before else None,
        scanned=scanned,
        agents=sorted({info.agent for info in shown if info.agent} | ({filters.agent} - {""})),
        directories=sorted(filter(None, {words.working_directory(info) for info in shown} | {filters.directory})),
        counts={status: number for status, number in counts.items() if number},
    )


def rows(rl: Relight, filters: Filters, shown: Sequence[str], new: Collection[str], now: datetime) -> list[Line]:
    """The rows of sessions that changed: those that a page shows, also where they match its filters no more, and those
    of the new ones that match."""
    found = [info for info in map(rl.sessions.find, shown[:PAGE]) if info is not None]
    if new:
        newest = _found(
            rl, msgspec.structs.replace(filters, before="", sort="created", reversed=False), now, limit=PAGE
        )
        found += [info for info in newest if info.id in new and _is_there(info, filters)]
    unserved = rl.queues.unserved()
    return [line_of(info, now, unserved) for info in found]


def matching(rl: Relight, filters: Filters, now: datetime) -> Iterator[SessionInfo]:
    """All sessions that match the filters, on every page, newest first."""
    every = msgspec.structs.replace(filters, before="", sort="created", reversed=False)
    found = _found(rl, every, now, limit=None)
    return (info for info in found if _is_there(info, filters))


def _is_there(info: SessionInfo, filters: Filters) -> bool:
    """Whether it works in the directory that is asked for."""
    return not filters.directory or words.working_directory(info) == filters.directory


def adoptable(rl: Relight) -> list[tuple[str, int, str]]:
    """Adoptable native sessions on this machine: agent, number, and the command that adopts the newest."""
    found = rl.runs.adoptable(most=ADOPTABLE)
    offers: list[tuple[str, int, str]] = []
    for agent in dict.fromkeys(one.agent for one in found):
        mine = [one for one in found if one.agent == agent]
        offers.append((agent, len(mine), f"cd {shlex.quote(mine[0].directory)} && relight adopt {mine[0].native}"))
    return offers


def _found(rl: Relight, filters: Filters, now: datetime, *, limit: int | None) -> Iterator[SessionInfo]:
    """The sessions that match, in order: over all of them, whatever the order is."""
    cursor = _CURSOR.fullmatch(filters.before)
    since = now - timedelta(hours=SINCE[filters.since]) if filters.since else None
    key, _, value = filters.label.partition("=")
    asked = filters.status.split(",")
    statuses = [one for one in STATUSES if one in asked or (not filters.status and one != "archived")]
    return rl.sessions.list(
        status=statuses if filters.status or not filters.archived else None,
        agent=filters.agent or None,
        provider=filters.provider or None,
        search=filters.q or None,
        labels={key: value} if key else None,
        since_us=round(since.timestamp() * 1e6) if since is not None else None,
        sort=filters.order,
        before=_place(cursor[1], cursor[2], filters.sort) if cursor else None,
        limit=limit,
    )


def _place(value: str, session: str, sort: str) -> Place | None:
    """The place that a cursor names; None if it is not one of this order."""
    try:
        return (value if sort == "name" else float(value) if sort == "cost" else int(value)), session
    except ValueError:
        return None


def _cursor(info: SessionInfo, filters: Filters) -> str:
    value, session = place_of(info, filters.order)
    return f"{value}~{session}"


def line_of(info: SessionInfo, now: datetime, unserved: Collection[str] = ()) -> Line:
    """The row of a session; `unserved`: queues that no worker serves."""
    glyph, role = words.GLYPHS[info.status]
    attention = info.attention
    cure = attention.cure if attention is not None and attention.kind not in ("waiting", "quiet") else ""
    with_forks = info.cost_tree is not None and info.cost_tree > (info.cost or 0)
    return Line(
        id=info.id,
        href=f"/sessions/{info.id}",
        title=words.title(info),
        named=info.name is not None,
        ref=words.ref(info),
        status=info.status,
        glyph=glyph,
        role=role,
        quiet=attention is not None and attention.kind == "quiet",
        problem=attention is not None,
        ended_ms=round(info.updated_at.timestamp() * 1000),
        attempt=info.attempt,
        agent=info.agent or "",
        where=words.short_path(words.working_directory(info)),
        where_full=words.display_path(words.working_directory(info)),
        now=shortened(words.now_text(info, now, unserved), _MAX_NOW),
        cure=cure,
        made_at=info.created_at,
        made_age=words.age(words.seconds_between(info.created_at, now)),
        saved_at=info.saved_at,
        saved_age=words.age(words.seconds_between(info.saved_at, now)),
        cost=words.money(info.cost),
        cost_tree=words.money(info.cost_tree) if with_forks else "",
        rate=words.money(info.cost_rate),
        parent=info.parent,
        seq=info.seq,
    )
