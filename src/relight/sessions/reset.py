"""Reset: other messages replace the conversation, which remains in the journal. Folding starts at the reset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from relight.journal.effects.open_effects import open_effects
from relight.sessions.recorder import Recorder
from relight.values.session import Head
from relight.values.step import Changes, Step, View


def reset_to(recorder: Recorder, messages: Sequence[dict[str, Any]]) -> tuple[Changes, View]:
    """The changes of a reset step, with open effects carried over, and the resulting view."""
    changes = Changes(messages=messages, carried=recorder.fold.carried(messages))
    trial = type(recorder.fold)(recorder.identity.provider)
    trial.apply(_trial_step(recorder.head), changes)
    head = recorder.head
    view = View(
        head=head.head,
        since=head.seq + 1,
        message_count=len(trial.messages),
        turns=trial.turns,
        open=open_effects(trial, head.seq + 1, head.updated_us),
    )
    return changes, view


def _trial_step(head: Head) -> Step:
    """A step that is never stored, to fold a change before it is committed."""
    return Step(
        session=head.session,
        seq=head.seq + 1,
        kind="reset",
        at_us=head.updated_us,
        attempt=head.attempt,
        base=head.head,
        since=head.seq + 1,
        message_count=0,
        turns=0,
        open=(),
        label=None,
        key=b"",
        digest=b"",
        body=b"",
    )
