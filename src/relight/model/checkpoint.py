"""A committed position one can return to: `session@seq`. Every step is one."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from relight.model.step import StepKind


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
    size_bytes: int = 0
    version: int = 1
    """of the stored form"""


def at(us: int) -> datetime:
    """Microseconds since 1970 as an aware UTC time."""
    return datetime.fromtimestamp(us / 1e6, UTC)
