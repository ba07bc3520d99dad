"""Durability levels: what an acknowledged step survives, from least to most."""

from __future__ import annotations

from typing import Final

LEVELS: Final = ("none", "process-crash", "power-loss")


def reaches(level: str, demanded: str) -> bool:
    """Whether a level is at least the wanted one. An unknown level counts as the lowest."""
    known = LEVELS.index(level) if level in LEVELS else 0
    return known >= LEVELS.index(demanded)
