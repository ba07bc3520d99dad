"""Reset: other messages replace the conversation, which remains in the journal. Folding starts at the reset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from relight.journal.fold import open_effects
from relight.sessions.effects import trial_step
from relight.sessions.recorder import Recorder
from relight.values.step import Changes, View


def reset_to(recorder: Recorder, messages: Sequence[dict[str, Any]]) -> tuple[Changes, View]:
    """The changes of a reset step, with open effects carried over, and the resulting view."""
    changes = Changes(messages=messages, carried=recorder.fold.carried(messages))
    trial = type(recorder.fold)(recorder.identity.provider)
    trial.apply(trial_step(recorder.head), changes)
    head = recorder.head
    view = View(
        head=head.head,
        since=head.seq + 1,
        message_count=len(trial.messages),
        turns=trial.turns,
        open=open_effects(trial, head.seq + 1, head.updated_us),
    )
    return changes, view
