"""An operator's write to a session that no process owns: claim, one step and release in one commit."""

from __future__ import annotations

from typing import Final

import msgspec

from relight.journal.status import derived_status
from relight.sessions.context import Context
from relight.sessions.opening import evidence_of, own_claim
from relight.sessions.recorder import Recorder
from relight.values.checkpoint import Checkpoint
from relight.values.queues import QueuePosition
from relight.values.session import Head
from relight.values.status import StatusChange
from relight.values.step import Changes, Claim, StepKind, View

_OPERATOR_SECONDS: Final = 1.0
"""length of the lease that lasts for one commit"""


def write_once(
    context: Context,
    recorder: Recorder,
    kind: StepKind,
    changes: Changes,
    *,
    view: View | None = None,
    force: bool = False,
    queue_position: QueuePosition | None = None,
) -> Checkpoint:
    """Claim, commit one step, release: one transaction. LeaseHeld while the session is owned."""
    head = recorder.head
    if force:  # revoking a lease succeeds whatever its owner wrote meanwhile
        owner = context.host.owner(context.entropy.session_id())
        claim = Claim(owner=owner, seconds=_OPERATOR_SECONDS, expected_epoch=head.epoch, owner_gone=True)
    else:
        claim = own_claim(context, recorder.identity, head, seconds=_OPERATOR_SECONDS)
    changes = with_derived_status(context, head, changes)
    return recorder.commit(
        kind,
        changes,
        claim=claim,
        release=True,
        view=view,
        queue_position=queue_position,
    )


def with_derived_status(context: Context, head: Head, changes: Changes) -> Changes:
    """Record a `working` session whose owner is gone as `terminated`, with whatever is written next."""
    status, reason = derived_status(head, evidence_of(context, head))
    if changes.status is not None or status == head.status:
        return changes
    return msgspec.structs.replace(changes, status=StatusChange(status=status, reason=reason))
