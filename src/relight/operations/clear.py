"""Clear: revoke the lease of a session, also of an owner that is alive."""

from __future__ import annotations

from relight.errors import Conflict
from relight.history.loading import Found
from relight.operations.write_once import write_once
from relight.sessions.context import Context
from relight.sessions.opening import recorder_for
from relight.values.checkpoint import Checkpoint
from relight.values.step import Changes


def clear(
    context: Context, found: Found, *, why: str | None = None, who: str | None = None, forget_native: bool = False
) -> Checkpoint:
    """Revoke the lease of any owner. If the owner is alive, its next write is refused and it stops.

    `forget_native` also drops the native session, so that the next resume starts from a brief of the journal.
    """
    recorder = recorder_for(context, found)
    lease = recorder.head.lease
    if lease is None and forget_native:
        forgot = {"forgot_native": recorder.head.native or "", "why": why or "", "by": who or ""}
        return write_once(context, recorder, "mark", Changes(note=forgot, native=""))
    if lease is None:
        name = found.identity.name or found.identity.id
        raise Conflict(f"{name}: its lease is free", hints=[f"see what it does: relight show {name}"])
    note = {"cleared": lease.owner.label, "epoch": recorder.head.epoch, "why": why or "", "by": who or ""}
    changes = Changes(note=note, native="" if forget_native else None)
    return write_once(context, recorder, "mark", changes, force=True)
