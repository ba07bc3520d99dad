"""Writes of an operator: answer, settle, archive, clear, label. Each is claim, one step and release in one commit.

They are refused while the session is owned, except `clear`, whose purpose is to revoke the lease.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from relight.errors import Conflict, NotResumable, UsageError
from relight.history.loading import Found
from relight.journal.codec import isolated
from relight.journal.conversation.dialogue import NEXT_PROMPT
from relight.journal.effects.answers import no_words_for
from relight.journal.jsonable import check_text
from relight.journal.status import derived_status
from relight.sessions.calls.settling import settling_outcome
from relight.sessions.context import Context
from relight.sessions.opening import evidence_of, own_claim, recorder_for, refuse_archived, refuse_subagent
from relight.sessions.recorder import Recorder
from relight.values.checkpoint import Checkpoint
from relight.values.queues import QueuePosition
from relight.values.session import Head, Identity
from relight.values.snapshot import Snapshot
from relight.values.status import LIVE, StatusChange
from relight.values.step import Changes, Claim, StepKind, View

_OPERATOR_SECONDS: Final = 1.0


def write_once(
    context: Context,
    recorder: Recorder,
    kind: StepKind,
    changes: Changes,
    *,
    label: str | None = None,
    view: View | None = None,
    force: bool = False,
    snapshots: tuple[Snapshot, ...] = (),
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
        label=label,
        claim=claim,
        release=True,
        view=view,
        snapshots=snapshots,
        queue_position=queue_position,
    )


def with_derived_status(context: Context, head: Head, changes: Changes) -> Changes:
    """Record a `working` session whose owner is gone as `terminated`, with whatever is written next."""
    status, reason = derived_status(head, evidence_of(context, head))
    if changes.status is not None or status == head.status:
        return changes
    return msgspec.structs.replace(changes, status=StatusChange(status=status, reason=reason))


def send(context: Context, found: Found, text: str) -> Checkpoint:
    """Answer a waiting session, or give a stopped one its next prompt."""
    check_text(text, "what is sent")
    refuse_archived(found)
    recorder = recorder_for(context, found)
    head = recorder.head
    check_readable(recorder.identity, head)
    if head.status == "waiting" and head.question is not None:
        _refuse_answer(found, head, text)
        filed = [head.question, isolated(text), *([head.asking.key] if head.asking is not None else [])]
        answer = Changes(answer=filed, status=StatusChange(status="queued", reason="answered"))
        return write_once(context, recorder, "mark", answer)
    if not text.strip():
        raise UsageError("nothing to send: the prompt is empty")
    return add_prompt(context, recorder, text)


def _refuse_answer(found: Found, head: Head, text: str) -> None:
    """Refuse a text that is not among the choices of the question, or that is sent where a decision is expected."""
    asking, name = head.asking, found.identity.name or found.identity.id
    if asking is not None and asking.kind == "approval":
        hints = [f"relight approve {name}", f"relight deny {name}"]
        raise Conflict(f"{name}: it waits for a decision about a tool call: approve or deny", hints=hints)
    if asking is not None and asking.choices and text not in asking.choices:
        known = ", ".join(map(repr, asking.choices))
        raise UsageError(f"{name}: the answer is one of {known}; not {text!a}", evidence=[f"asks: {head.question}"])


def check_readable(identity: Identity, head: Head) -> None:
    """Conflict if no program would read a message sent to the session."""
    refuse_subagent(identity)
    found = no_words_for(
        identity.agent,
        head.status,
        head.question,
        has_command=identity.command is not None,
        open_calls=len(head.open),
    )
    if found is not None:
        why, instead = found
        raise Conflict(f"{identity.name or identity.id[:8]}: {why}; nothing was written", hints=[instead])


def deliver(context: Context, found: Found, text: str) -> bool:
    """Type text to a coding agent that runs in a terminal; False if the session does not run."""
    head = found.whole_head()
    if derived_status(head, evidence_of(context, head))[0] not in LIVE or not has_transcript(context, found.identity):
        return False
    context.runtime(found.identity).deliver(head.handle or "", text)
    return True


def add_prompt(
    context: Context,
    recorder: Recorder,
    text: str,
    *,
    queue_position: QueuePosition | None = None,
    wake_us: int | None = None,
) -> Checkpoint:
    """Add the next user prompt and queue a session that had stopped.

    A message in the provider's own form; a coding agent gets it when it starts, and writes it to its transcript itself.
    It is redacted like every text passed to relight: a secret belongs in a variable.
    """
    head = recorder.head
    change = StatusChange(status="queued", reason="new prompt", wake_us=wake_us or head.wake_us)
    status = None if head.status in LIVE else change
    changes = msgspec.structs.replace(next_prompt(context, recorder, text), status=status)
    return write_once(
        context, recorder, "message" if changes.messages else "mark", changes, queue_position=queue_position
    )


def next_prompt(context: Context, recorder: Recorder, text: str) -> Changes:
    """The changes that record the next user prompt: a message, or for a coding agent a prompt that waits for its
    start."""
    text = recorder.recording.about(text)
    if has_transcript(context, recorder.identity):
        return Changes(answer=[NEXT_PROMPT, isolated(text)])
    return Changes(messages=[isolated(recorder.fold.format.user(text))])


def has_transcript(context: Context, identity: Identity) -> bool:
    """Whether it is a coding agent, whose own transcript is the conversation."""
    return context.agent(identity).capabilities.transcript


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


def archive(context: Context, found: Found) -> Checkpoint:
    """Archive for good: readable, not resumable. Only a session that has ended, or never began, can be archived."""
    recorder = recorder_for(context, found)
    status, _ = derived_status(recorder.head, evidence_of(context, recorder.head))
    name = found.identity.name or found.identity.id
    if status == "archived":
        raise Conflict(f"{name}: it is archived already")
    if status in ("waiting", "spawning", "working"):
        raise NotResumable(name, f"cannot be archived while it is {status}", hints=[f"relight clear {name}"])
    if recorder.head.status == "working":
        # `working` may not become `archived` directly. This write records `terminated` for the dead owner first.
        write_once(context, recorder, "mark", Changes())
    change = StatusChange(status="archived", reason="archived")
    return write_once(context, recorder, "status", Changes(status=change))


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
        raise Conflict(f"{name}: its lease is free", hints=[f"relight resume {name}"])
    note = {"cleared": lease.owner.label, "epoch": recorder.head.epoch, "why": why or "", "by": who or ""}
    changes = Changes(note=note, native="" if forget_native else None)
    return write_once(context, recorder, "mark", changes, force=True)
