"""What is known of one process, whatever the source, and which programs serve several sessions."""

from __future__ import annotations

from typing import Final, NamedTuple

SERVICES: Final[dict[str, tuple[tuple[str, str], ...]]] = {}
"""programs, and the arguments with which they run as a service for several sessions; filled by wiring_agents.py"""


class Facts(NamedTuple):
    """What is known of one process. Pid and start together identify it within a boot; a pid alone may be reused."""

    start: str
    """start time, in a unit of the table's own; only compared"""
    is_zombie: bool
    parent: int
    group: int
    session: int
    """terminal session (setsid)"""
