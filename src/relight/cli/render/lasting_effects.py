"""What going back cannot take back: effects declared `once` that ran after the checkpoint."""

from __future__ import annotations

from relight.cli.render.table import Fact
from relight.values.call import Call


def not_undone(effects: list[Call] | None) -> Fact:
    """As a line of a block; without text where there is none."""
    if effects is None:
        return Fact("not undone", "unknown: a newer step is damaged", "warn")
    return Fact("not undone", ", ".join(f"{call.name} (once) at @{call.intent_seq}" for call in effects), "warn")
