"""Readable export: a session as JSON documents, one per step and one about the session.

They contain everything the digest chain was computed over, so that others can check it; a step from which a secret was
removed is marked (`redacted`), and its digest is that of the original step.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from relight.errors import Corrupt
from relight.history.events import event_of
from relight.history.listing import info_of
from relight.history.loading import Found, chain_of
from relight.journal.codec import Undecodable, decode_changes
from relight.journal.lineage import stretches
from relight.sessions.context import Context
from relight.values.step import Step

Document = tuple[str, dict[str, Any]]
"""file name and content"""
_DIGITS: Final = 8


def export(context: Context, found: Found, *, redact: bool = True) -> Iterator[Document]:
    """`session.json`, then `step-00000001.json` and so on, including a fork's inherited steps."""
    for name, document in _documents(context, found):
        after = context.redactor().value(document) if redact else document
        yield name, after if after is document else {**after, "redacted": True}


def _documents(context: Context, found: Found) -> Iterator[Document]:
    yield "session.json", msgspec.to_builtins(info_of(context, found, tree=True))
    upto = found.seq if found.seq is not None else found.whole_head().seq
    for stretch in stretches(chain_of(context.store, found.identity), after=0, upto=upto):
        for step in context.store.steps(stretch.session, after=stretch.after, upto=stretch.upto):
            yield f"step-{step.seq:0{_DIGITS}}.json", _readable(step, found)


def _readable(step: Step, found: Found) -> dict[str, Any]:
    try:
        event = msgspec.to_builtins(event_of(step, decode_changes(step.body)))
    except Undecodable as error:
        name = found.identity.name or found.identity.id
        raise Corrupt(f"the step cannot be read: {error}", session=name, seq=step.seq) from None
    return {
        **event,
        "since": step.since,
        "message_count": step.message_count,
        "turns": step.turns,
        "digest": step.digest.hex(),
    }
