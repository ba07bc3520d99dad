"""`relight list`: sessions, newest created first, those of this directory on top; above them what needs a person.

Rows do not move when a status changes. Sessions that are not printed are counted.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from relight.cli.app.context import CliContext, pass_context
from relight.cli.app.verb import json_flag, verb
from relight.cli.render.cells import cells, cut
from relight.cli.render.console import Console, printable
from relight.cli.render.style import Line, Part, Role, Span, Style, status_word
from relight.cli.render.table import Column, table
from relight.errors import UsageError
from relight.text.format import (
    GLYPHS,
    age,
    count,
    display_path,
    money,
    now_text,
    seconds_between,
    short_id,
    size,
    working_directory,
)
from relight.text.safe import one_line
from relight.values.checkpoint import at
from relight.values.info import SessionInfo
from relight.values.status import STATUSES, Status

if TYPE_CHECKING:
    from relight.library.facade import Relight
    from relight.operations.retention import Kept

SCREEN_ROWS: Final = 20
COUNTED: Final = 1000
STRIP: Final = 5
LONG_DAYS: Final = 7.0
"""finished sessions older than this are mentioned below the list"""
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_COLUMNS: Final = [
    Column("  STATUS"),
    Column("NAME", least=12),
    Column("NOW", least=10, drop=3),
    Column("STEP", right=True, drop=4),
    Column("SAVED", right=True, drop=1),
    Column("COST", right=True, drop=2),
]


class Listing(NamedTuple):
    """The sessions to print, and counts of the others."""

    sessions: list[SessionInfo]
    matching: int
    more: bool
    """more sessions match than were counted"""
    archived: int
    total: int
    filtered: bool
    needing: list[SessionInfo]
    """the most urgent sessions that need a person"""
    kept: Kept | None = None
    """finished long ago and not removed; None if the store has a retention policy"""
    needing_total: int = 0
    """how many need a person, at least len(needing)"""
    unserved: frozenset[str] = frozenset()
    """queues that no worker serves"""
    depths: dict[str, int] = {}  # noqa: RUF012 - a default of a tuple, never changed
    """as a tree: how far below the first of its tree a session is; all others 0"""


class Filters(NamedTuple):
    """The filters of the command line."""

    agent: str | None = None
    provider: str | None = None
    status: Status | None = None
    labels: dict[str, str] = {}  # noqa: RUF012 - a default of a tuple, never changed
    search: str | None = None
    since_us: int | None = None
    here: str | None = None

    @property
    def any(self) -> bool:
        return self != Filters()


@verb(
    "list",
    ("list", "all but archived ones"),
    ("list --status failed --since 8h", "failures of this night"),
    ("list --costs --label team=web --json", "what they cost by day, model, agent, label and tool"),
)
@click.option("--agent", metavar="A", help="Only this agent.")
@click.option("--provider", metavar="P", help="Only this provider.")
@click.option("--status", type=click.Choice(STATUSES), metavar="S", help=f"Only this status: {', '.join(STATUSES)}.")
@click.option("--label", "labels", multiple=True, metavar="K=V", help="Only with this label; may be repeated.")
@click.option("--here", is_flag=True, help="Only this directory.")
@click.option("--since", metavar="AGE", help="Only created within AGE: 30m, 8h, 2d, 1w.")
@click.option("--search", metavar="TEXT", help="Only with TEXT in name, id, key, task or labels.")
@click.option("--sort", type=click.Choice(["created", "step", "cost", "name"]), default="created", help="Order.")
@click.option("--all", "everything", is_flag=True, help="All sessions, including archived ones.")
@click.option("--tree", is_flag=True, help="Children below the session that spawned them.")
@click.option("--costs", is_flag=True, help="What they cost, by day, model, agent, label and tool.")
@click.option("--watch", is_flag=True, help="Redraw until q is pressed.")
@json_flag
@pass_context
def list_sessions(
    cli: CliContext, /, as_json: bool, watch: bool, sort: str, everything: bool, tree: bool, costs: bool, **asked: Any
) -> int:
    """List sessions, newest first, and those that need you."""
    console = cli.console
    filters = _filters(cli, **asked)
    if costs and (watch or tree or everything or sort != "created"):
        raise UsageError(
            "--costs takes filters and --json: no order, tree or watch, and archived sessions count anyway"
        )
    with cli.opened() as rl:
        if costs:
            from relight.cli.inspect.costs import DAYS, print_costs  # imported late: it reads steps

            filters = filters._replace(since_us=filters.since_us or since_us(f"{DAYS}d", cli.now()))
            listing = read_listing(rl, filters, sort, everything=True, limit=None)
            print_costs(cli, rl, listing.sessions, at(filters.since_us or 0), as_json=as_json)
            return 0
        if watch:
            from relight.cli.render.watch import watch as redraw

            return redraw(console, lambda: _screen(read_listing(rl, filters, sort, everything, SCREEN_ROWS, tree), cli))
        limit = SCREEN_ROWS if console.out.terminal and not as_json and not everything else None
        listing = read_listing(rl, filters, sort, everything, limit, tree)
    if as_json:
        from relight.history.documents import session_document  # imported late: only for `--json`

        console.document([session_document(info) for info in listing.sessions])
    elif console.out.table:
        console.write(_screen(listing, cli))
    else:
        _print_plain(console, listing, cli.now())
    _foot(console, listing)
    return 0


def _filters(
    cli: CliContext, *, labels: tuple[str, ...], since: str | None, here: bool, status: Any, **plain: Any
) -> Filters:
    return Filters(
        status=status,
        labels=label_pairs(labels),
        since_us=since_us(since, cli.now()),
        here=os.getcwd() if here else None,
        **plain,
    )


def label_pairs(labels: Iterable[str]) -> dict[str, str]:
    """Parse `K=V` arguments; UsageError for any other form."""
    pairs = {}
    for one in labels:
        key, separator, value = one.partition("=")
        if not separator or not key:
            raise UsageError(f"not a label of the form KEY=VALUE: {one!r}")
        pairs[key] = value
    return pairs


def since_us(since: str | None, now: datetime) -> int | None:
    """The time that is so long ago, in microseconds since 1970; UsageError for what is not an age."""
    if since is None:
        return None
    found = re.fullmatch(r"(\d{1,6})([smhdw])", since)
    if found is None:
        raise UsageError(f"not an age: {since!r}", hints=["for example 30m, 8h, 2d, 1w"])
    begin = now - timedelta(seconds=int(found[1]) * _UNITS[found[2]])
    return round(begin.timestamp() * 1e6)


def read_listing(
    rl: Relight, filters: Filters, sort: str, everything: bool, limit: int | None, tree: bool = False
) -> Listing:
    """Read at most `limit` sessions, and count the others that match up to a bound. `tree`: the children of each that
    is listed follow it, beyond the limit."""
    counts = rl.sessions.counts()
    archived = 0 if everything or filters.status == "archived" else counts.get("archived", 0)
    sessions = rl.sessions.list(
        agent=filters.agent,
        provider=filters.provider,
        status=filters.status,
        labels=filters.labels,
        search=filters.search,
        since_us=filters.since_us,
    )
    # A filter is applied here, session by session, so counting all matches would read the whole store: it stops at
    # COUNTED. Without filters the store's own counts are used.
    found, matching, more = [], 0, False
    for info in sessions:
        if (info.status == "archived" and archived) or (filters.here and working_directory(info) != filters.here):
            continue
        matching += 1
        if limit is None or matching <= limit or sort != "created":
            found.append(info)
        elif not filters.any or matching > COUNTED:
            more = filters.any
            break
    if not filters.any and limit is not None:
        matching = sum(counts.values()) - archived
    urgent = rl.sessions.needing(most=STRIP)
    shown, depths = _sorted(found, sort)[:limit], dict[str, int]()
    if tree:
        shown, depths = _as_tree(rl, shown)
    return Listing(
        sessions=shown,
        depths=depths,
        matching=matching,
        more=more,
        archived=archived,
        total=sum(counts.values()),
        filtered=filters.any,
        needing=urgent.sessions,
        needing_total=urgent.total,
        unserved=rl.queues.unserved() if any(info.queue for info in shown) else frozenset(),
        kept=rl.admin.kept_longer_than(LONG_DAYS) if not rl.admin.retention().is_set else None,
    )


def _as_tree(rl: Relight, infos: list[SessionInfo]) -> tuple[list[SessionInfo], dict[str, int]]:
    """The sessions, each followed by its children, oldest first; and how deep they are."""
    ids = {info.id for info in infos}
    shown: list[SessionInfo] = []
    depths: dict[str, int] = {}
    left = [(info, 0) for info in reversed(infos) if info.spawned_by not in ids]
    while left and len(shown) < COUNTED:
        info, depth = left.pop()
        if info.id not in depths:
            shown.append(info)
            depths[info.id] = depth
            left += [(child, depth + 1) for child in rl.sessions.list(spawned_by=info.id)]
    return shown, depths


def _sorted(infos: list[SessionInfo], sort: str) -> list[SessionInfo]:
    if sort == "cost":
        return sorted(infos, key=lambda info: -(info.cost or 0.0))
    if sort == "step":
        return sorted(infos, key=lambda info: info.updated_at, reverse=True)
    if sort == "name":
        return sorted(infos, key=lambda info: (info.name is None, info.name or info.id))
    return infos


def _screen(listing: Listing, cli: CliContext) -> list[Line]:
    return lines_of(listing, now=cli.now(), style=cli.console.out, here=os.getcwd())


def lines_of(listing: Listing, *, now: datetime, style: Style, here: str) -> list[Line]:
    """The sessions that need a person, then the table in two groups."""
    strip = strip_lines(listing.needing, listing.needing_total, now=now, style=style)
    if not listing.sessions:
        return strip
    mine = [info for info in listing.sessions if working_directory(info) == here]
    others = [info for info in listing.sessions if working_directory(info) != here]
    rows: list[list[Part]] = []
    if mine:
        rows += [[Span(f"here  {display_path(here)}", "dim")]]
        rows += [_row(info, now, style, listing, away=False) for info in mine]
        rows += [[Span("elsewhere", "dim")]] if others else []
    rows += [_row(info, now, style, listing, away=True) for info in others]
    return [*strip, *([[]] if strip else []), *table(_COLUMNS, rows, style)]


def strip_lines(needing: list[SessionInfo], total: int, *, now: datetime, style: Style) -> list[Line]:
    """At most five sessions that need a person, on as few lines as possible."""
    if not needing:
        return []
    total = max(total, len(needing))
    heading = f"needs you {total:,}" if total > STRIP else "needs you"
    items = [_strip_item(info, now, style, room=style.width - len(heading)) for info in needing[:STRIP]]
    if total > STRIP:
        items.append([Span(f"and {total - STRIP:,} more", "dim")])
    lines: list[Line] = [[Span(heading, "bold")]]
    used = len(heading)
    for item in items:
        width = sum(cells(one.text) for one in item)
        if used + 2 + width > style.width and used > len(heading):
            lines.append([" " * len(heading)])
            used = len(heading)
        lines[-1] += ["  ", *item]
        used += 2 + width
    return lines


def _strip_item(info: SessionInfo, now: datetime, style: Style, *, room: int) -> list[Span]:
    attention = info.attention
    if attention is None:
        return []
    doubtful: tuple[str, Role] = ("!", "warn")
    glyph, role = doubtful if attention.kind in ("quiet", "in_doubt", "corrupt") else GLYPHS[info.status]
    what = {
        "waiting": "asks",
        "in_doubt": "in doubt",
        "corrupt": "damaged",
        "failed": info.failure.kind if info.failure is not None else "failed",
        "terminated": f"stopped {age(seconds_between(info.updated_at, now))} ago",
        "quiet": f"quiet {age(seconds_between(info.last_step_at, now))}",
    }.get(attention.kind, attention.kind)
    name = one_line(info.name or short_id(info.id))
    name = cut(printable(name, style), max(4, room - len(what) - 5), ellipsis=style.ellipsis)
    return [Span(f"{glyph} ", role), Span(name, "bold"), Span(f" {what}")]


def _name_of(info: SessionInfo, depth: int) -> Part:
    """The name, after the id to type where not everybody's keyboard has the name's letters: a narrow column cuts off
    the end, and text from right to left would move what is behind it. Children are indented."""
    under = "  " * depth
    if info.name is None:
        return Span(under + short_id(info.id), "dim")
    return Span(under + (info.name if info.name.isascii() else f"{short_id(info.id)} {info.name}"), "bold")


def _row(info: SessionInfo, now: datetime, style: Style, listing: Listing, *, away: bool) -> list[Part]:
    mark = "!" if (info.attention is not None and info.attention.kind == "quiet") or info.in_doubt else ""
    directory = display_path(working_directory(info)) if away else ""
    text = now_text(info, now, listing.unserved)
    return [
        status_word(info.status, mark=mark, unicode=style.unicode),
        _name_of(info, listing.depths.get(info.id, 0)),
        f"{directory}  {text}" if directory and text else directory or text,
        Span(age(seconds_between(info.last_step_at, now)), "dim"),
        Span(age(seconds_between(info.saved_at, now)), "dim"),
        money(info.cost),
    ]


def _print_plain(console: Console, listing: Listing, now: datetime) -> None:
    if not console.out.plain:
        for info in listing.sessions:
            console.row(_fields(info, now, listing.unserved))
        return
    lines: list[Line] = [[f"plain mode (from {console.out.plain})"]]
    for info in listing.needing[:STRIP]:
        lines.append([f"needs you: {info.title}: {one_line(info.attention.text if info.attention else '')}"])
    for info in listing.sessions:
        lines += [
            [],
            [f"name: {info.title}"],
            [f"status: {info.status}"],
            [f"now: {now_text(info, now, listing.unserved)}"],
        ]
        lines += [[f"directory: {display_path(working_directory(info)) or '-'}"], [f"cost: {money(info.cost)}"]]
        lines += [[f"last step: {age(seconds_between(info.last_step_at, now))} ago"]] if info.last_step_at else []
    console.write(lines)


def _fields(info: SessionInfo, now: datetime, unserved: frozenset[str]) -> tuple[Any, ...]:
    cost = None if info.cost is None else f"{info.cost:.6f}"
    text = now_text(info, now, unserved)
    return (
        info.id,
        info.name,
        info.status,
        info.agent,
        working_directory(info),
        text,
        info.last_step_at,
        info.saved_at,
        cost,
    )


def _foot(console: Console, listing: Listing) -> None:
    """Print what was left out and how to list it."""
    if listing.total == 0 and not listing.filtered:
        console.say("No sessions yet.")
        console.next(
            ("try it", "relight demo                  60 seconds, no key, no network"),
            ("start", "relight run -- claude         any command works after --"),
        )
        return
    many = f"{COUNTED:,}+" if listing.more else f"{listing.matching:,}"
    if listing.filtered and not listing.sessions:
        console.say(f"Nothing matches. {listing.total:,} sessions without filters: relight list --all")
        return
    hidden = len(listing.sessions) < listing.matching or listing.more
    parts = [
        f"{len(listing.sessions):,} of {many} {'that match ' if listing.filtered else ''}shown, newest first"
    ] * hidden
    parts += [f"{listing.archived:,} archived not shown"] * bool(listing.archived)
    if parts:
        if console.out.terminal:
            console.lines([[]])
        console.say(Span(f"{'; '.join(parts)}. More: relight list --all", "dim"))
    _print_removable(console, listing.kept)


def _print_removable(console: Console, kept: Kept | None) -> None:
    """Mention old finished sessions, which are removed only on request."""
    if kept is None or not kept.sessions:
        return
    number = f"{'at least ' if kept.more else ''}{count(kept.sessions, 'session')}"
    text = f"{number} finished over {kept.days:g} days ago and are kept, {size(kept.size_bytes)} of journal."
    console.say(Span(f"{text} Remove them: relight sweep; every day: relight sweep --set 7d", "dim"))
