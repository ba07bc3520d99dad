"""Archive: a session stays readable and can no longer be resumed."""

from __future__ import annotations

from relight.errors import Conflict, NotResumable
from relight.history.loading import Found
from relight.journal.status import derived_status
from relight.operations.write_once import write_once
from relight.sessions.context import Context
from relight.sessions.opening import evidence_of, recorder_for
from relight.values.checkpoint import Checkpoint
from relight.values.status import StatusChange
from relight.values.step import Changes


def archive(context: Context, found: Found) -> Checkpoint:
    """Archive for good: readable, not resumable. Only a session that has ended, or never began, can be archived."""
    recorder = recorder_for(context, found)
    status, _ = derived_status(recorder.head, evidence_of(context, recorder.head))
    name = found.identity.name or found.identity.id
    if status == "archived":
        raise Conflict(f"{name}: it is archived already")
    if status in ("waiting", "spawning", "working"):
        first = f"see what it waits for: relight show {name}" if status == "waiting" else f"relight stop {name}"
        hints = [first, f"or remove it: relight rm {name}"]
        raise NotResumable(name, f"cannot be archived while it is {status}", hints=hints)
    if recorder.head.status == "working":
        # `working` may not become `archived` directly. This write records `terminated` for the dead owner first.
        write_once(context, recorder, "mark", Changes())
    change = StatusChange(status="archived", reason="archived")
    return write_once(context, recorder, "status", Changes(status=change))
