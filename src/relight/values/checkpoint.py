"""A committed position in a session that can be returned to: `session@seq`. Every step is one."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from relight.values.step import StepKind


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What `append` and `checkpoint` return and `checkpoints` lists."""

    id: str
    """`<session id>@<seq>`"""
    session: str
    seq: int
    kind: StepKind
    label: str | None = None
    created_at: datetime
    turns: int = 0
    message_count: int = 0
    model: str | None = None
    snapshot: str | None = None
    """of the files, taken with this step; None if they are unchanged, or if there are none"""
    size_bytes: int = 0
    version: int = 1
    """of the stored form"""


def public_snapshot(snapshots: Mapping[str, str]) -> str | None:
    """The snapshot id of a single root; for several roots, `name=id` pairs."""
    if not snapshots:
        return None
    if len(snapshots) > 1:
        return ",".join(f"{root}={snapshot}" for root, snapshot in sorted(snapshots.items()))
    return next(iter(snapshots.values()))


LATEST_US: Final = 221_845_392_000_000_000
"""the year 9000; later times are refused, because adding a time zone or duration could overflow the calendar"""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def at(us: int) -> datetime:
    """Microseconds since 1970 as an aware UTC time. Total: a time outside the calendar becomes its nearest edge."""
    # Called for every row of a list: two comparisons are cheaper than two calls, and a duration of (days, seconds,
    # microseconds) is built three times as fast without keywords.
    return _EPOCH + timedelta(0, 0, us if 0 <= us <= LATEST_US else 0 if us < 0 else LATEST_US)
