"""Calls that are open where a rewind or a fork goes, as its dialog shows them, and which of them may run again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from relight.errors import Corrupt
from relight.server.pages.dialog_values import Field, Option
from relight.text import format as words
from relight.values.call import PlannedCall

if TYPE_CHECKING:
    from relight.library.facade import Relight


def open_calls(rl: Relight, ref: str, after: Literal["rewind", "fork"]) -> list[PlannedCall]:
    """What is open there; nothing where a newer step is damaged, which the page says elsewhere."""
    try:
        return rl.planned_calls(ref, after=after)
    except Corrupt:
        return []


def call_rows(calls: list[PlannedCall]) -> list[tuple[str, str, str]]:
    """As lines of a dialog: (name, text, role)."""
    return [("calls" if number == 0 else "", one, "warn") for number, one in enumerate(words.planned_calls(calls))]


def again_fields(calls: list[PlannedCall]) -> list[Field]:
    """What a person ticks to let calls run again that would not, or not for certain; nothing where there are none."""
    options = [
        Option(value=one.key, label=f"{one.name} ({one.id})", note=one.text)
        for one in calls
        if one.action not in ("run", "run_again")
    ]
    label, when = "Let run again, under a new key", ("conversation", "both")
    return [Field(kind="boxes", name="again", label=label, options=options, when=when)] if options else []
