"""Events: the journal as a public stream, step by step, without gaps or duplicates.

An event is the public form of a step. Following polls the store; a cheap change token avoids reading when nothing
happened, and every tenth poll reads anyway, so a missed change costs a delay and no event.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

import msgspec

from relight.errors import Corrupt, NotFound
from relight.history.loading import Found, chain_of
from relight.journal import extensions
from relight.journal.codec import Undecodable, decode_changes
from relight.journal.lineage import stretches, visible
from relight.journal.status import derived_status
from relight.sessions.context import Context
from relight.sessions.opening import evidence_of
from relight.values.checkpoint import at
from relight.values.status import LIVE
from relight.values.step import Changes, Step, StepKind

POLL_SECONDS: Final = 0.1
_MAX_SKIPPED_POLLS: Final = 10


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One step in its public form."""

    session: str
    seq: int
    kind: StepKind
    at: datetime
    attempt: int
    label: str | None
    messages: list[Any] = []
    intents: list[dict[str, Any]] = []
    outcomes: list[dict[str, Any]] = []
    state: dict[str, Any] = {}
    usage: dict[str, Any] | None = None
    status: dict[str, Any] | None = None
    started: dict[str, Any] | None = None
    """for an attempt: number, resumed_from, reason, owner"""
    partial: Any = None
    stream: str | None = None
    """text of a reply in progress that is new with this step"""
    answer: list[Any] = []
    note: dict[str, Any] = {}
    record: Any = None
    """the framework record of the step"""
    base: int = 0


def event_of(step: Step, changes: Changes) -> Event:
    """The public form of a step."""
    built = msgspec.to_builtins
    return Event(
        session=step.session,
        seq=step.seq,
        kind=step.kind,
        at=at(step.at_us),
        attempt=step.attempt,
        label=step.label,
        messages=list(changes.messages) or _spoken(changes.record),
        intents=built(changes.intents),
        outcomes=[_outcome(one) for one in changes.outcomes],
        state=changes.state or {},
        usage=built(changes.usage) if changes.usage is not None else None,
        status=_status(changes),
        started=built(changes.attempt) if changes.attempt is not None else None,
        partial=changes.partial[-1] if changes.partial else None,
        stream=changes.stream[1] if changes.stream else None,
        answer=list(changes.answer),
        note=changes.note or {},
        record=changes.record,
        base=step.base,
    )


def _outcome(outcome: Any) -> dict[str, Any]:
    return {
        "id": outcome.id,
        "asked_seq": outcome.asked_seq,
        "status": outcome.status,
        "content": outcome.content,
        "synthetic": outcome.synthetic,
        "generation": outcome.generation,
        "carried_from": outcome.carried_from or None,
    }


def _status(changes: Changes) -> dict[str, Any] | None:
    change = changes.status
    if change is None:
        return None
    failure = msgspec.to_builtins(change.failure) if change.failure is not None else None
    return {
        "status": change.status,
        "reason": change.reason,
        "failure": failure,
        "question": change.question,
        "result": change.result,
    }


def history(context: Context, found: Found, *, after: int = 0) -> Iterator[Event]:
    """All steps after a seq, oldest first; a fork includes its ancestors' steps."""
    head = found.whole_head()
    for stretch in stretches(chain_of(context.store, found.identity), after=after, upto=head.seq):
        for step in context.store.steps(stretch.session, after=stretch.after, upto=stretch.upto):
            yield event_from(step, found)


def _spoken(record: Any) -> list[dict[str, Any]]:
    """The messages that a framework's record adds to its conversation."""
    if record is None:
        return []
    return next((said for reader in extensions.installed().record_readers() if (said := reader.spoken(record))), [])


def thread(context: Context, found: Found, seq: int) -> list[dict[str, Any]]:
    """The conversation of a framework's thread at a checkpoint, from its records; empty for any other session."""
    readers = extensions.installed().record_readers()
    reader = next((one for one in readers if found.identity.agent == one.AGENT), None)
    return _conversation(context, found, seq, reader) if reader is not None else []


def records_thread(context: Context, found: Found) -> list[dict[str, Any]]:
    """The same at the head or checkpoint found, whatever agent the session has now."""
    seq = found.seq if found.seq is not None else found.whole_head().head
    said = (_conversation(context, found, seq, one) for one in extensions.installed().record_readers())
    return next((one for one in said if one), [])


def _conversation(context: Context, found: Found, seq: int, reader: extensions.RecordReader) -> list[dict[str, Any]]:
    events = {event.seq: event for event in history(context, found) if event.seq <= seq}
    path = visible({event.seq: event.base for event in events.values()}, head=seq, since=0)
    return reader.conversation({one: events[one].record for one in path if events[one].record is not None})


def follow(context: Context, found: Found, *, after: int = 0, poll_seconds: float = POLL_SECONDS) -> Iterator[Event]:
    """History, then each step as it is committed; ends when no process can write without a new attempt."""
    for event in poll_events(context, found, after=after):
        if event is None:
            context.clock.sleep(poll_seconds)
        else:
            yield event


def poll_events(context: Context, found: Found, *, after: int = 0) -> Iterator[Event | None]:
    """Like `follow`, without sleeping: yields None when there is nothing new at the moment."""
    seen, token, idle = after, object(), 0
    session = found.identity.id
    while True:
        # The token is read before the steps. A commit in between is then read now, or changes the token again; read in
        # the other order it could be missed until the next forced poll.
        now = context.store.changed()
        idle += 1
        if now != token or idle >= _MAX_SKIPPED_POLLS:
            token, idle = now, 0
            record = context.store.find(session)
            if record is None:
                raise NotFound(session)
            current = Found(identity=record.identity, head=record.head, seq=None)
            for event in history(context, current, after=seen):
                seen = event.seq
                yield event
            if derived_status(current.whole_head(), evidence_of(context, current.whole_head()))[0] not in LIVE:
                return
        yield None


def event_from(step: Step, found: Found) -> Event:
    """The event of a stored step. Corrupt if it cannot be decoded."""
    try:
        return event_of(step, decode_changes(step.body))
    except Undecodable as error:
        name = found.identity.name or found.identity.id
        raise Corrupt(f"the step cannot be read: {error}", session=name, seq=step.seq) from None
