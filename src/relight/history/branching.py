"""Fork the journal: a new session that stores only its own suffix. Creating it reads one row of the parent.

Its files are the subject of fork.py.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from relight.errors import Corrupt, UsageError
from relight.history.loading import Found, chain_of, load_forked, step_at
from relight.journal.codec import isolated
from relight.journal.conversation.edited_message import with_text
from relight.journal.conversation.last_reply import last_reply_line
from relight.journal.effects.open_effects import open_effects
from relight.journal.jsonable import check_text
from relight.operations import send
from relight.operations.write_once import write_once
from relight.sessions.context import Context
from relight.sessions.names import check_free, release_archived
from relight.sessions.opening import IMPORTED, recorder_for
from relight.sessions.reset import reset_to
from relight.values.checkpoint import Checkpoint
from relight.values.session import GENESIS, Head, Identity, Parent
from relight.values.status import StatusChange


def fork(
    context: Context,
    found: Found,
    *,
    name: str | None = None,
    prompt: str | None = None,
    workspace: dict[str, str] | None = None,
) -> Identity:
    """A new session from a checkpoint, or from the head, in these directories. The parent is not changed."""
    identity, head = planned_fork(context, found, name=name, workspace=workspace)
    release_archived(context, name)
    context.store.create(identity, head)
    if prompt is not None:
        add_prompt(context, Found(identity=identity, head=head, seq=None), prompt)
    return identity


def planned_fork(
    context: Context, found: Found, *, name: str | None = None, workspace: dict[str, str] | None = None
) -> tuple[Identity, Head]:
    """The identity and head of a fork; nothing is written."""
    check_free(context, name)
    seq = found.seq if found.seq is not None else found.whole_head().head
    identity = msgspec.structs.replace(
        found.identity,
        id=context.entropy.session_id(),
        name=name,
        former_name=None,
        parent=Parent(session=found.identity.id, seq=seq, known=found.whole_head().seq) if seq else None,
        created_us=context.clock.now_us(),
        model=found.identity.model_at(seq),
        models=[one for one in found.identity.models if one[0] < seq],
        queue_position=None,  # not queued unless it is asked for
        stop_attempt=None,
        spawned_by=None,
        subagent=None,
        # Forking an imported session is a decision to continue it, so the fork is not marked as untrusted. This is safe
        # because a fork never runs calls that its parent requested.
        labels={key: value for key, value in found.identity.labels.items() if key != IMPORTED},
    )
    if workspace is not None:
        identity = moved(identity, workspace)
    return identity, msgspec.structs.replace(_inherited_head(context, found, seq), session=identity.id)


def moved(identity: Identity, workspace: dict[str, str]) -> Identity:
    """The same session with its files in other directories."""
    directory = moved_directory(identity, workspace)
    return msgspec.structs.replace(identity, workspace=workspace, directory=directory)


def moved_directory(identity: Identity, workspace: Mapping[str, str]) -> str | None:
    """The working directory: if it was inside a root that has moved, it moves with it."""
    for name, path in identity.workspace.items():
        directory = identity.directory or ""
        if name in workspace and f"{directory}/".startswith(f"{path}/"):
            return workspace[name] + directory[len(path) :]
    return identity.directory


def _inherited_head(context: Context, found: Found, seq: int) -> Head:
    """The head of a fork. Its effects in doubt are those of the view it inherits, with all that the parent knew about
    them when the fork was made; the agent's last line is that of the view too.

    Reads more than one row only if something was open, or if the parent has continued since.
    """
    head = head_at(context, found, seq)
    # A call that was requested up to here may have begun later, on any branch: the row of this step does not show it.
    if not head.open and seq == found.whole_head().seq:
        return msgspec.structs.replace(head, said=found.whole_head().said)
    try:
        fold = load_forked(context.store, found, seq)
    except Corrupt:
        return head
    said = last_reply_line(fold.format, fold.messages)
    return msgspec.structs.replace(head, open=open_effects(fold, seq, head.updated_us), said=said)


def head_at(context: Context, found: Found, seq: int) -> Head:
    """A head at the checkpoint, with nothing of its own yet."""
    if seq == 0:
        return Head(session="", digest=GENESIS)
    step = step_at(context.store, chain_of(context.store, found.identity), seq)
    return Head(
        session="",
        seq=seq,
        head=step.base if step.kind == "rewind" else seq,
        digest=step.digest,
        since=step.since,
        message_count=step.message_count,
        turns=step.turns,
        open=step.open,
        status="queued",
        reason=f"forked from {found.identity.name or found.identity.id[:8]}@{seq}",
        updated_us=step.at_us,
    )


def add_prompt(context: Context, found: Found, prompt: str) -> Checkpoint:
    """Append a user message in the provider's own form, and queue the session."""
    return send.add_prompt(context, recorder_for(context, found), prompt)


def edit_last(context: Context, found: Found, text: str) -> Checkpoint:
    """Replace the text of the last message, by a reset that carries over every effect: what ran does not run again.
    UsageError if the conversation is not relight's own, or has no text there."""
    recorder = recorder_for(context, found)
    if send.has_transcript(context, recorder.identity):
        why = "a coding agent's conversation is its own transcript: it cannot be edited"
        raise UsageError(why, hints=["fork with a prompt instead"])
    messages = list(recorder.fold.messages)
    if not messages:
        raise UsageError("there is no message to edit", hints=["fork with a prompt instead"])
    edited = with_text(messages[-1], recorder.recording.about(check_text(text, "the edited text")))
    changes, view = reset_to(recorder, [*messages[:-1], isolated(edited)])
    change = StatusChange(status="queued", reason="edited")
    changes = msgspec.structs.replace(changes, status=change, note={"edited": "last message"})
    return write_once(context, recorder, "reset", changes, view=view)
