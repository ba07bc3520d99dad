"""`relight` without a verb: sessions that need a person, and five commands."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from relight.cli.app.context import CliContext
from relight.cli.inspect.list import STRIP, strip_lines
from relight.cli.render.style import Line, Span
from relight.cli.render.table import facts
from relight.text.facts import Fact
from relight.text.format import age, seconds_between
from relight.text.safe import one_line
from relight.values.info import SessionInfo

_COMMANDS: Final = [
    Fact("relight run -- python agent.py", "start a crash-proof program"),
    Fact("relight list", "all sessions and their status"),
    Fact("relight show NAME", "one session: activity, cost, result"),
    Fact("relight resume NAME", "continue where it stopped"),
    Fact("relight help", "everything else"),
]
_CURES: Final = 3


def home(cli: CliContext) -> int:
    """Print sessions that need a person, each with its remedy, then the commands."""
    console, style, now = cli.console, cli.console.out, cli.now()
    with cli.opened() as rl:
        found, counts, pause = rl.sessions.needing(most=STRIP), rl.sessions.counts(), rl.admin.paused()
    needing = found.sessions
    lines: list[Line] = []
    if pause is not None:
        lines += [[Span("paused", "warn"), f" by {pause.by}: nothing is started until relight unpause"], []]
    if needing:
        lines += strip_lines(needing, found.total, now=now, style=style)
        lines += [*facts([_cure(info, now) for info in needing[:_CURES]], style), []]
    elif sum(counts.values()):
        lines += [[Span("nothing needs you", "ok")], []]
    console.write([*lines, *facts(_COMMANDS, style, indent=0)])
    return 0


def _cure(info: SessionInfo, now: datetime) -> Fact:
    saved = f"saved at @{info.head} {age(seconds_between(info.saved_at, now))} ago" if info.head else "no step yet"
    return Fact(info.title, f"{saved}.  {one_line(info.attention.cure) if info.attention is not None else ''}")
