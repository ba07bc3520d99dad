"""Continuing after damage: from the newest whole checkpoint, without deleting anything.

The broken step stays for inspection; a rewind to the checkpoint before it hides it. If the session row itself is
broken, it is first rebuilt from the journal.
"""

from __future__ import annotations

import msgspec

from relight.errors import Corrupt
from relight.history.branching import head_at
from relight.history.loading import Found, chain_of, has_steps_after, load, newest_whole
from relight.history.rewind import rewind
from relight.journal.codec import Undecodable, decode_changes
from relight.sessions.context import Context
from relight.values.checkpoint import Checkpoint
from relight.values.session import Head, Identity
from relight.values.status import StatusChange
from relight.values.step import Step
from relight.values.usage import Usage


def go_back_to_whole(context: Context, found: Found) -> Checkpoint | None:
    """Rewind to the newest whole checkpoint; None if nothing is broken. Corrupt if nothing is whole."""
    try:
        load(context.store, Found(identity=found.identity, head=found.head, seq=None))
    except Corrupt:
        chain = chain_of(context.store, found.identity)
    else:
        return None
    head = found.head
    if head is None or has_steps_after(context.store, head):
        stale, head = head, _rebuilt(context, found.identity)
        context.store.rebuild_head(head, instead_of=stale.digest if stale is not None else None)
    good = newest_whole(context.store, chain, below=head.seq + 1)
    if good is None:
        raise Corrupt("no checkpoint of it is whole", session=found.identity.name or found.identity.id)
    return rewind(context, Found(identity=found.identity, head=head, seq=good))


def _rebuilt(context: Context, identity: Identity) -> Head:
    """The head computed from the journal, without an owner."""
    steps = list(context.store.steps(identity.id))
    if not steps and identity.parent is not None:
        begun = head_at(context, Found(identity=identity, head=None, seq=None), identity.parent.seq)
        return msgspec.structs.replace(begun, session=identity.id, epoch=1)
    if not steps:
        raise Corrupt("its head row is broken and it has no step of its own", session=identity.name or identity.id)
    last = steps[-1]
    usage, status = _usage_and_status(steps)
    return Head(
        session=identity.id,
        seq=last.seq,
        head=last.base if last.kind == "rewind" else last.seq,
        digest=last.digest,
        since=last.since,
        message_count=last.message_count,
        turns=last.turns,
        open=last.open,
        status=status.status if status is not None else "terminated",
        reason=status.reason if status is not None else "rebuilt from the journal",
        attempt=last.attempt,
        usage=usage,
        size_bytes=sum(len(step.body) for step in steps),
        updated_us=last.at_us,
        # Any epoch that no writer can hold will do: every claim was a step, so their number is an upper bound. A former
        # owner is refused because the rebuilt head has no owner.
        epoch=last.attempt + len(steps),
        queue_position=identity.queue_position,
    )


def _usage_and_status(steps: list[Step]) -> tuple[Usage, StatusChange | None]:
    usage, status = Usage(), None
    for step in steps:
        try:
            changes = decode_changes(step.body)
        except Undecodable:
            continue  # this may be the broken step; the others still count
        usage = usage + changes.usage if changes.usage is not None else usage
        status = changes.status or status
    return usage, status
