"""Settle: an operator decides a tool call in doubt, by its result or by permission to run again."""

from __future__ import annotations

from typing import Any

from relight.errors import UsageError
from relight.history.loading import Found
from relight.operations.write_once import write_once
from relight.sessions.calls.settling import settling_outcome
from relight.sessions.context import Context
from relight.sessions.opening import recorder_for, refuse_archived
from relight.values.checkpoint import Checkpoint
from relight.values.status import StatusChange
from relight.values.step import Changes


def settle(context: Context, found: Found, key: str, *, result: Any = None, retry: bool = False) -> Checkpoint:
    """Record the outcome of an effect in doubt. The last one settled queues a session that waited for it."""
    if retry == (result is not None):
        raise UsageError("give either a result or retry", hints=["--result TEXT, or --retry"])
    refuse_archived(found)
    recorder = recorder_for(context, found)
    outcome = settling_outcome(recorder, key, result, retry=retry)
    doubts = [one for one in recorder.head.open if one.effect == "once"]
    left = [one for one in doubts if (one.asked_seq, one.id) != (outcome.asked_seq, outcome.id)]
    waited = recorder.head.status == "waiting" and recorder.head.question is None and not left
    status = StatusChange(status="queued", reason="settled") if waited else None
    return write_once(context, recorder, "result", Changes(outcomes=[outcome], status=status, note={"settled": key}))
