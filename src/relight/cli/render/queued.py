"""Options and output of sessions that are queued."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Final

from relight.cli.app.context import CliContext
from relight.cli.render.style import Span
from relight.errors import UsageError
from relight.text.format import moment, short_id
from relight.values.info import SessionInfo

_FROM_NOW: Final = re.compile(r"\+(\d+(?:\.\d+)?)(s|m|min|h|d)")
_UNITS: Final = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}
_OF_DAY: Final = re.compile(r"(\d{1,2}):(\d{2})")


def moment_of(text: str | None, now: datetime) -> datetime | None:
    """Parse `+90s`, `+2h`, `22:30` (the next one, local time), or a date with a time."""
    if text is None:
        return None
    from_now, of_day = _FROM_NOW.fullmatch(text), _OF_DAY.fullmatch(text)
    if from_now:
        return now + timedelta(seconds=float(from_now[1]) * _UNITS[from_now[2]])
    try:
        if of_day:
            here = now.astimezone()
            then = here.replace(hour=int(of_day[1]), minute=int(of_day[2]), second=0, microsecond=0)
            return then if then > here else then + timedelta(days=1)
        found = datetime.fromisoformat(text)
        return found if found.tzinfo is not None else found.astimezone()
    except ValueError:
        raise UsageError(
            f"not a time: {text!a}", hints=["for example +90s, +2h, 22:30, 2026-12-24T08:00, 2026-12-24T08:00+01:00"]
        ) from None


def labels_of(text: str) -> list[str]:
    """Split a comma-separated list of labels."""
    return [one for one in text.split(",") if one]


def print_queued(cli: CliContext, info: SessionInfo) -> int:
    """Print the session, its queue and when it may start."""
    when = f", not before {moment(info.wake_at, cli.now())}" if info.wake_at is not None else ""
    if cli.console.out.terminal:
        text = f"  {short_id(info.id)} queued in {info.queue}{when}"
        cli.console.write([[Span("✓ ", "ok"), Span(info.title, "bold"), text]])
    else:
        cli.console.row((info.id, info.name, info.queue))
    cli.console.next(
        ("watch", f"relight tail {info.title} -f"),
        ("workers", "relight worker --list"),
        ("remove it from the queue", f"relight stop {info.title}"),
    )
    return 0
