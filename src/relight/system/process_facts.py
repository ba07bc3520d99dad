"""What is known of one process, whatever the source."""

from __future__ import annotations

from typing import NamedTuple


class Facts(NamedTuple):
    """What is known of one process. Pid and start together identify it within a boot; a pid alone may be reused."""

    start: str
    """start time, in a unit of the table's own; only compared"""
    is_zombie: bool
    parent: int
    group: int
    session: int
    """terminal session (setsid)"""
