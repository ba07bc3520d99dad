"""What going back cannot take back: effects declared `once` that ran after the checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

from relight.cli.table import Fact
from relight.errors import Corrupt
from relight.model.call import Call

if TYPE_CHECKING:
    from relight.engine.library import Relight


def effects_since(rl: Relight, session: str, seq: int) -> list[Call] | None:
    """In the head's view; None where the head is damaged, and nobody can say."""
    try:
        calls = rl.load(session).calls
    except Corrupt:
        return None
    return [call for call in calls if (call.intent_seq or 0) > seq and call.effect == "once"]


def not_undone(effects: list[Call] | None) -> Fact:
    """As a line of a block; without text where there is none."""
    if effects is None:
        return Fact("not undone", "unknown: a newer step is damaged", "warn")
    return Fact("not undone", ", ".join(f"{call.name} (once) at @{call.intent_seq}" for call in effects), "warn")
