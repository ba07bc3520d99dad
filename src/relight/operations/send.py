"""Send: the answer to a question, the next prompt of a stopped session, or text typed into an agent's terminal."""

from __future__ import annotations

import os
from typing import Final

import msgspec

from relight.errors import Conflict, UsageError
from relight.history.loading import Found
from relight.journal.codec import isolated
from relight.journal.conversation.dialogue import NEXT_PROMPT
from relight.journal.conversation.provider_responses import ended_turn
from relight.journal.effects.answers import no_words_for
from relight.journal.jsonable import check_text
from relight.journal.status import derived_status
from relight.operations.write_once import write_once
from relight.sessions.context import Context
from relight.sessions.opening import evidence_of, recorder_for, refuse_archived, refuse_subagent
from relight.sessions.recorder import Recorder
from relight.values.checkpoint import Checkpoint
from relight.values.queues import QueuePosition
from relight.values.session import Head, Identity
from relight.values.status import LIVE, StatusChange
from relight.values.step import Changes

_MAX_ARGUMENT_BYTES: Final = 131_071
"""of one argument, on Linux; coding agents are given their prompt as an argument"""


def send(context: Context, found: Found, text: str) -> Checkpoint:
    """Answer a waiting session, or give a stopped one its next prompt."""
    check_text(text, "what is sent")
    refuse_archived(found)
    recorder = recorder_for(context, found)
    head = recorder.head
    check_readable(recorder.identity, head)
    if head.status == "waiting" and head.question is not None:
        _refuse_answer(context, found, head, text)
        filed = [head.question, isolated(text), *([head.asking.key] if head.asking is not None else [])]
        answer = Changes(answer=filed, status=StatusChange(status="queued", reason="answered"))
        return write_once(context, recorder, "mark", answer)
    return add_prompt(context, recorder, text)


def _refuse_empty(text: str, what: str) -> None:
    if not text.strip():
        raise UsageError(f"nothing to send: the {what} is empty")


def _refuse_answer(context: Context, found: Found, head: Head, text: str) -> None:
    """Refuse a text that is not among the choices of the question, that is empty where there are none (a shell's
    variable that was never set), that comes after the question's time, or where a decision is expected."""
    asking, name = head.asking, found.identity.name or found.identity.id
    if asking is not None and asking.kind == "approval":
        hints = [f"relight approve {name}", f"relight deny {name}"]
        raise Conflict(f"{name}: it waits for a decision about a tool call: approve or deny", hints=hints)
    if asking is not None and head.wake_us is not None and head.wake_us <= context.clock.now_us():
        instead = f"the default, {asking.default[0]!r}, is the answer" if asking.default else "there is no answer"
        hints = [f"go on: relight resume {name}" if found.identity.command else "run your program again"]
        raise Conflict(f"{name}: the time for an answer is over; {instead}", hints=hints)
    if asking is None or not asking.choices:
        return _refuse_empty(text, "answer")
    if text not in asking.choices:
        known = ", ".join(map(repr, asking.choices))
        raise UsageError(f"{name}: the answer is one of {known}; not {text!r}", evidence=[f"asks: {head.question}"])


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
    check_prompt(context, recorder.identity, text)
    text = recorder.recording.about(text)
    if has_transcript(context, recorder.identity):
        return Changes(answer=[NEXT_PROMPT, isolated(text)])
    fold = recorder.fold
    return Changes(messages=ended_turn(fold.format, fold.messages, [isolated(fold.format.user(text))]))


def check_prompt(context: Context, identity: Identity, text: str) -> None:
    """UsageError unless the program can be given this prompt: no provider accepts an empty message, and a coding agent
    could not be started with it, now or later."""
    _refuse_empty(text, "prompt")
    if has_transcript(context, identity):
        check_argument(text, "the prompt")


def check_argument(text: str, what: str) -> None:
    """UsageError unless a program can be started with this text as one argument."""
    try:
        size = len(os.fsencode(text))
    except UnicodeEncodeError:
        raise UsageError(f"{what} holds a lone surrogate: no program can be given it as an argument") from None
    if "\0" in text:
        raise UsageError(f"{what} holds a NUL: no program can be given it as an argument")
    if size > _MAX_ARGUMENT_BYTES:
        hints = ["write it to a file in the workspace, and name the file"]
        raise UsageError(f"{what} has {size:,} bytes; an argument has at most {_MAX_ARGUMENT_BYTES:,}", hints=hints)


def has_transcript(context: Context, identity: Identity) -> bool:
    """Whether it is a coding agent, whose own transcript is the conversation."""
    return context.agent(identity).capabilities.transcript
