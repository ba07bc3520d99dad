"""The open tool calls at the target of a rewind or fork, for its dialog, and which of them may run again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from relight.errors import Corrupt
from relight.server.pages.dialog_values import Field, Option
from relight.text import format as words
from relight.values.call import PlannedCall

if TYPE_CHECKING:
    from relight.library.facade import Relight


def open_calls(rl: Relight, ref: str, after: Literal["rewind", "fork"]) -> list[PlannedCall]:
    """The planned calls; empty if a newer step is damaged, which the page reports elsewhere."""
    try:
        return rl.planned_calls(ref, after=after)
    except Corrupt:
        return []


def call_rows(calls: list[PlannedCall]) -> list[tuple[str, str, str]]:
    """Planned calls as lines of a dialog: (name, text, role)."""
    return [("calls" if number == 0 else "", one, "warn") for number, one in enumerate(words.planned_calls(calls))]


def again_fields(calls: list[PlannedCall]) -> list[Field]:
    """Checkboxes to let calls run again that otherwise would not; no field if there are none."""
    options = [
        Option(value=one.key, label=f"{one.name} ({one.id})", note=one.text)
        for one in calls
        if one.action not in ("run", "run_again")
    ]
    label, when = "Let run again, under a new key", ("conversation", "both")
    return [Field(kind="boxes", name="again", label=label, options=options, when=when)] if options else []
