"""What an acknowledged step survives, from least to most; and whether that is enough."""

from __future__ import annotations

from typing import Final

LEVELS: Final = ("none", "process-crash", "power-loss")


def reaches(level: str, demanded: str) -> bool:
    """Is it at least this? A level that nobody knows is the least."""
    known = LEVELS.index(level) if level in LEVELS else 0
    return known >= LEVELS.index(demanded)
