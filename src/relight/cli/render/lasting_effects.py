"""Effects declared `once` that ran after a checkpoint: a rewind does not undo them."""

from __future__ import annotations

from relight.cli.render.table import Fact
from relight.values.call import Call


def not_undone(effects: list[Call] | None) -> Fact:
    """A fact that lists them; the text is empty if there are none."""
    if effects is None:
        return Fact("not undone", "unknown: a newer step is damaged", "warn")
    return Fact("not undone", ", ".join(f"{call.name} (once) at @{call.intent_seq}" for call in effects), "warn")
