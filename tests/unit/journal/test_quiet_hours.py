"""When nothing runs, decided without a clock."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from relight.errors import UsageError
from relight.journal.quiet_hours import quiet_hours, quiet_until


@pytest.mark.parametrize(
    ("hours", "now", "until"),
    [
        ("22:00-07:00", "2026-11-16T21:59", None),
        ("22:00-07:00", "2026-11-16T22:00", "2026-11-17T07:00"),
        ("22:00-07:00", "2026-11-17T06:59", "2026-11-17T07:00"),
        ("22:00-07:00", "2026-11-17T07:00", None),
        ("9:30-17:00", "2026-11-17T12:00", "2026-11-17T17:00"),
        ("9:30-17:00", "2026-11-17T09:29", None),
    ],
)
def test_quiet_hours_end_when_they_say(hours: str, now: str, until: str | None) -> None:
    found = quiet_until(hours, datetime.fromisoformat(now).replace(tzinfo=UTC))
    assert (found.isoformat()[:16] if found is not None else None) == until


@pytest.mark.parametrize("text", ["", "22-7", "24:00-07:00", "22:00-22:00", "22:00-07:60", "tonight"])
def test_quiet_hours_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        quiet_hours(text)
