"""Quiet hours: the times of day in which a session does not run. Pure."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Final

from relight.errors import UsageError

_HOURS: Final = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)-([01]?\d|2[0-3]):([0-5]\d)", re.ASCII)


def quiet_hours(text: str) -> tuple[int, int]:
    """Begin and end of `22:00-07:00` in minutes of the day. UsageError if it is nothing like that."""
    found = _HOURS.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"quiet hours are like 22:00-07:00, not {text[:50]!r}")
    hours = [int(part) for part in found.groups()]
    begin, end = hours[0] * 60 + hours[1], hours[2] * 60 + hours[3]
    if begin == end:
        raise UsageError("quiet hours begin and end at different times", hints=["to stop everything: relight pause"])
    return begin, end


def quiet_until(text: str, now: datetime) -> datetime | None:
    """The end of the quiet hours that `now` lies in, as its own zone counts; None outside of them."""
    begin, end = quiet_hours(text)
    minute = now.hour * 60 + now.minute
    inside = begin <= minute < end if begin < end else minute >= begin or minute < end
    if not inside:
        return None
    over = now.replace(hour=end // 60, minute=end % 60, second=0, microsecond=0)
    return over if over > now else over + timedelta(days=1)
