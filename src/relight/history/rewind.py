"""Rewind: move the head back to a checkpoint.

A rewind appends a step whose base is the target. The steps that it hides remain in the journal and can be returned to.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from relight.errors import Corrupt, NotFound, UsageError
from relight.history.branching import head_at
from relight.history.loading import Found, load_returned
from relight.journal.conversation.last_reply import last_reply_line
from relight.journal.effects.open_effects import open_effects
from relight.journal.files.undo_log import HeadState, Move, end_note, head_state_of
from relight.journal.status import derived_status
from relight.operations.write_once import write_once
from relight.sessions.calls.settling import retriable
from relight.sessions.context import Context
from relight.sessions.opening import evidence_of, recorder_for, refuse_archived
from relight.values.call import Outcome
from relight.values.checkpoint import Checkpoint
from relight.values.session import Head
from relight.values.status import StatusChange
from relight.values.step import Changes, View

if TYPE_CHECKING:
    from relight.journal.fold import Fold


def rewind(context: Context, found: Found) -> Checkpoint:
    """Move the head back to a checkpoint of this session. Refused while the session is owned."""
    if found.seq is None:
        raise UsageError("a rewind needs a checkpoint", hints=["name it: SESSION@SEQ or SESSION@LABEL"])
    refuse_archived(found)
    recorder = recorder_for(context, found)
    head, (view, _) = recorder.head, rewind_view(context, found)
    move = Move(verb="rewind", heads=(head.head, view.head), before=head_state(context, head))
    changes = Changes(note=end_note(move, begun=None, restores={}), status=status_after_rewind(head, view))
    return write_once(context, recorder, "rewind", changes, view=view)


def head_state(context: Context, head: Head) -> HeadState:
    """The state of the head now, with the status as shown."""
    return head_state_of(head, *derived_status(head, evidence_of(context, head)))


def status_after_rewind(head: Head, view: View) -> StatusChange | None:
    """A completed session is queued after a rewind, and so is a waiting one whose question is no longer in view. Any
    other keeps its status."""
    if head.status != "completed" and (head.status != "waiting" or view.head == head.head):
        return None
    return StatusChange(status="queued", reason=f"rewound to @{view.head}")


def rewind_view(context: Context, found: Found, again: Sequence[str] = ()) -> tuple[View, list[Outcome]]:
    """What is visible with the head at this checkpoint, and the outcomes that allow the effects named by `again` to
    run again. NotFound if one of them is not open there."""
    target = head_at(context, found, found.seq or 0)
    view = View(
        head=target.head,
        since=target.since,
        message_count=target.message_count,
        turns=target.turns,
        open=target.open,
    )
    try:
        fold = load_returned(context.store, found, found.seq or 0)
    except Corrupt:
        if again:
            raise
        return view, []  # the steps left behind are damaged: a rewind is the way to leave them
    allowed = [_allowed_again(fold, found, key) for key in again]
    closed = {(one.asked_seq, one.id) for one in allowed}
    began = [one for one in open_effects(fold, target.seq, target.updated_us) if (one.asked_seq, one.id) not in closed]
    said = last_reply_line(fold.format, fold.messages)
    return msgspec.structs.replace(view, open=tuple(began), said=said), allowed


def _allowed_again(fold: Fold, found: Found, key: str) -> Outcome:
    allowed = retriable(fold, key)
    if allowed is None:
        here = [slot.site.id for slot in fold.open_slots()] + [
            name for name, one in fold.once.items() if one.outcome is None or one.carried_from
        ]
        at = f"{found.identity.name or found.identity.id}@{found.seq}"
        evidence = [f"open at {at}: {one}" for one in here] or [f"no call is open at {at}"]
        raise NotFound(key, what="call to run again", evidence=evidence)
    return allowed
