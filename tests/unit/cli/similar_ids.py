"""Two sessions whose ids begin alike, as chance would hardly ever make them."""

from __future__ import annotations

from itertools import count
from typing import Any

import relight
from relight.system.machine import SystemEntropy


class Twins(SystemEntropy):
    """Ids that differ late."""

    def __init__(self) -> None:
        self._next = count(1)

    def session_id(self) -> str:
        return f"abcdef{next(self._next):026x}"


def make_twins(rl: relight.Relight) -> tuple[Any, Any]:
    """`twin-a` and `twin-b`, in the same store."""
    with relight.open(rl.store.url, entropy=Twins()) as same:
        for name in ("twin-a", "twin-b"):
            with same.session(name) as s:
                s.append({"role": "user", "content": name})
        return same.sessions.get("twin-a"), same.sessions.get("twin-b")
