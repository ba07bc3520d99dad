"""When a limit ends: from an epoch, a header or a message.

A time of day means the next such time after the message was written, in the time zone it names, else in the agent's.
Such times are cut to the minute, so one within the last two minutes still counts as the future: "resets 6:02am",
written at 6:02:30, is not tomorrow. Besides the arguments only the time zone database is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Any, Final
from zoneinfo import ZoneInfo

from relight.journal.failures.lenient import mapping, number, pick, plain
from relight.values.ending import LEAST_WAIT_SECONDS, MAX_WAIT_SECONDS

SECOND_US: Final = 1_000_000
_GRACE: Final = timedelta(seconds=120)
_EARLIEST: Final = 1_000_000_000
_LATEST: Final = 4_102_444_800
"""epochs outside of 2001 to 2099 are not accepted as times"""
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")

_WHEN: Final = re.compile(
    r"\b(?:resets?|try again|continuing automatically|available again)(?:\s+(?:at|on))?:?\s+"
    r"(?:(?P<month>[a-z]{3,9})\.?\s+(?P<day>\d{1,2})(?:st|nd|rd|th)?(?:,?\s+(?P<year>\d{4}))?(?:,|\s+at)*\s+)?"
    r"(?P<hour>\d{1,2})(?::(?P<minute>\d\d))?(?::\d\d)?(?:\s?(?P<half>[ap])\.?m\b)?"
    r"(?:\s+\((?P<zone>[a-z0-9_+\-/]{1,60})\))?",
    re.IGNORECASE,
)
_EPOCH: Final = re.compile(r"limit reached\|(\d{10}(?:\d{3})?)\b", re.IGNORECASE)
_DATE: Final = re.compile(
    r"\b(?:regain access|resets?|try again|available)\D{0,20}(\d{4})-(\d\d)-(\d\d)(?:[T ]|\s+at\s+)(\d\d):(\d\d)"
    r"(?::\d\d(?:\.\d+)?)?\s*(utc|gmt|z|[+-]\d\d:\d\d)?",
    re.IGNORECASE,
)
_IN: Final = re.compile(
    r"\b(?:try again|retry|retry after|resets?)\s+(?:in|after)?\s*((?:\d+(?:\.\d+)?\s*[a-z]+[,\s]*(?:and\s+)?)+)",
    re.IGNORECASE,
)
_PART: Final = re.compile(
    r"(\d+(?:\.\d+)?)\s*(ms|milliseconds?|d|days?|h|hrs?|hours?|m|mins?|minutes?|s|secs?|seconds?)(?![a-z])",
    re.IGNORECASE,
)
_UNIT_SECONDS: Final = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


def epoch_us(value: Any) -> int | None:
    """An epoch in seconds (or milliseconds) as microseconds; None if it is implausible."""
    seconds = number(value)
    if seconds is not None and seconds > 100 * _EARLIEST:
        seconds /= 1000
    if seconds is None or not _EARLIEST <= seconds < _LATEST:
        return None
    return round(seconds * SECOND_US)


def said_us(line: Any, otherwise: int) -> int:
    """When a line was written, by its own timestamp."""
    return iso_us(pick(line, "timestamp")) or otherwise


def iso_us(value: Any) -> int | None:
    """An RFC 3339 time; without an offset it is UTC."""
    if not isinstance(value, str) or len(value) > 40:
        return None
    try:
        when = datetime.fromisoformat(value)
    except ValueError:
        return None
    return _us(when if when.tzinfo else when.replace(tzinfo=UTC))


def from_text(text: str, *, said: int, timezone: str) -> int | None:
    """The reset named in a message, in microseconds since 1970; `said` is when the message was written."""
    text = plain(text)
    if found := _EPOCH.search(text):
        return epoch_us(found[1])
    if found := _DATE.search(text):
        return _dated(found)
    try:
        now = datetime.fromtimestamp(said / SECOND_US, UTC)
        for found in _WHEN.finditer(text):
            if found["half"] or found["minute"]:
                return _next(found, now, _zone(found["zone"]) or _zone(timezone) or UTC)
    except (ValueError, OverflowError, OSError):  # 13:75pm, 31 February, the year 0
        return None
    return None


def in_text(text: str) -> float | None:
    """The duration of "try again in 2 days 17 hours 14 minutes", in seconds."""
    found = _IN.search(plain(text))
    return duration_seconds(found[1]) if found else None


def duration_seconds(value: Any) -> float | None:
    """Seconds from a number, "6m0s" or "2 days 17 hours"."""
    seconds = number(value)
    if seconds is None and isinstance(value, str):
        parts = _PART.findall(value[:100])
        seconds = sum(float(amount) * _unit(unit) for amount, unit in parts) if parts else None
    return seconds if seconds is not None and 0 <= seconds <= _LATEST else None


def retry_after_seconds(headers: Any, now_us: int) -> float | None:
    """The longest delay that the response headers ask for."""
    lower = {str(name).lower(): value for name, value in list(mapping(headers).items())[:200]}
    waits = [duration_seconds(lower.get("retry-after"))]
    if (at := _http_date_us(lower.get("retry-after"))) is not None:
        waits = [max(0.0, (at - now_us) / SECOND_US)]
    if (milliseconds := number(lower.get("retry-after-ms"))) is not None:
        waits.append(max(0.0, milliseconds / 1000))
    for name, value in lower.items():
        if name.startswith("x-ratelimit-reset-"):
            waits.append(duration_seconds(value))
        elif name.startswith("anthropic-ratelimit-") and name.endswith("-reset") and (at := iso_us(value)):
            waits.append(max(0.0, (at - now_us) / SECOND_US))
    return max((wait for wait in waits if wait is not None), default=None)


def wake_us(reset_us: int, now_us: int, least_seconds: float = LEAST_WAIT_SECONDS) -> int:
    """When to retry: after the reset and a margin, because resets slide, but not at once and within 8 days. The
    margin is also the minimum wait."""
    least_us = round(least_seconds * SECOND_US)
    return min(max(reset_us, now_us) + least_us, now_us + MAX_WAIT_SECONDS * SECOND_US)


def _http_date_us(value: Any) -> int | None:
    if not isinstance(value, str) or "," not in value:
        return None
    try:
        return _us(datetime.strptime(value.strip(), "%a, %d %b %Y %H:%M:%S GMT").replace(tzinfo=UTC))
    except ValueError:
        return None


def _unit(unit: str) -> float:
    name = unit.lower()
    return _UNIT_SECONDS["ms" if name.startswith(("ms", "milli")) else name[0]]


def _us(when: datetime) -> int | None:
    try:
        return epoch_us(when.timestamp())
    except (ValueError, OverflowError, OSError):
        return None


def _zone(name: str | None) -> tzinfo | None:
    if not name:
        return None
    try:
        return ZoneInfo("UTC" if name.upper() in {"UTC", "GMT", "Z"} else name)
    except (KeyError, ValueError, OSError):  # not a zone; a path; a directory of zones
        return None


def _dated(found: re.Match[str]) -> int | None:
    offset = found[6] or ""
    year, month, day, hour, minute = found.groups()[:5]
    return iso_us(f"{year}-{month}-{day}T{hour}:{minute}:00{offset if offset[:1] in {'+', '-'} else ''}")


def _next(found: re.Match[str], now: datetime, zone: tzinfo) -> int | None:
    hour, minute = int(found["hour"]), int(found["minute"] or 0)
    if found["half"]:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if found["half"].lower() == "p" else 0)
    for day in _days(found, now.astimezone(zone).date()):
        when = datetime(day.year, day.month, day.day, hour, minute, tzinfo=zone)
        if found["year"] or when >= now - _GRACE:
            return _us(when)
    return None


def _days(found: re.Match[str], today: date) -> Iterator[date]:
    """The days it may mean, earliest first."""
    if not found["month"]:
        yield from (today + timedelta(days=ahead) for ahead in (-1, 0, 1))
        return
    if (name := found["month"][:3].lower()) not in _MONTHS:
        return
    years = [int(found["year"])] if found["year"] else range(today.year - 1, today.year + 9)
    for year in years:
        month, day = _MONTHS.index(name) + 1, int(found["day"])
        if (month, day) != (2, 29) or year % 4 == 0:
            yield date(year, month, day)
