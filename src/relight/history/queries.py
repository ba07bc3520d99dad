"""Queries over many sessions: leases, the fork tree, full-text search. Read-only; each has a bound."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from typing import Any, Final

import msgspec

from relight.history import events, listing
from relight.history.loading import Found, chain_of, resolve
from relight.journal.lineage import stretches
from relight.journal.status import evidence_lines
from relight.ports.store import Query
from relight.sessions.context import Context
from relight.sessions.opening import evidence_of
from relight.values.checkpoint import Checkpoint, at
from relight.values.info import SessionInfo
from relight.values.status import LIVE

MAX_FORKS: Final = 1000
_CONTEXT_CHARS: Final = 60
_MAX_TEXT: Final = 1_000_000


class LeaseInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A lease, and what is observed about its owner."""

    session: str
    name: str | None
    status: str
    """as shown: `working` with a dead owner is terminated"""
    owner: str
    epoch: int
    attempt: int
    expires_at: datetime | None
    """None: expired"""
    remaining_seconds: float
    owner_gone: bool | None
    """None: not observable from this machine"""
    last_step_at: datetime
    evidence: list[str]


class Branch(msgspec.Struct, frozen=True, kw_only=True):
    """A session in its fork tree."""

    session: SessionInfo
    forked_at: int | None
    depth: int


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """A step that contains the text, with an excerpt."""

    seq: int
    kind: str
    at: datetime
    text: str


class Hits(msgspec.Struct, frozen=True, kw_only=True):
    """The exact number of hits, and some of them."""

    count: int
    hits: list[Hit]


def leases(context: Context, *, most: int) -> list[LeaseInfo]:
    """Current leases, newest sessions first."""
    query = Query(statuses=LIVE)
    held = (record for record in listing.every_session(context.store, query) if record.head and record.head.lease)
    return [_lease_info(context, Found(identity=one.identity, head=one.head, seq=None)) for one in islice(held, most)]


def _lease_info(context: Context, found: Found) -> LeaseInfo:
    head = found.whole_head()
    assert head.lease is not None
    evidence = evidence_of(context, head)
    left = head.lease.remaining_seconds(evidence.now)
    return LeaseInfo(
        session=found.identity.id,
        name=found.identity.name,
        status=listing.info_of(context, found).status,
        owner=head.lease.owner.label,
        epoch=head.epoch,
        attempt=head.attempt,
        expires_at=at(evidence.now_us + round(left * 1e6)) if left else None,
        remaining_seconds=round(left, 1),
        owner_gone=evidence.owner_gone,
        last_step_at=at(head.updated_us),
        evidence=evidence_lines(head, evidence),
    )


def tree(context: Context, found: Found) -> list[Branch]:
    """The whole fork tree of a session, each fork below its parent, oldest first."""
    root = chain_of(context.store, found.identity)[-1]
    left: list[tuple[str, int]] = [(root.id, 0)]
    branches: list[Branch] = []
    while left and len(branches) < MAX_FORKS:
        session, depth = left.pop()
        one = resolve(context.store, session)
        parent = one.identity.parent
        info = listing.info_of(context, one)
        branches.append(Branch(session=info, forked_at=parent.seq if parent else None, depth=depth))
        below = islice(listing.every_session(context.store, Query(parent=session)), MAX_FORKS)
        left += [(record.identity.id, depth + 1) for record in below]  # newest first, so the oldest is taken first
    return branches


def search(context: Context, found: Found, text: str, *, after: int, most: int) -> Hits:
    """Steps that contain a text in messages, calls, results or reasons. All are counted; the first `most` after a
    seq are returned."""
    wanted, count = text.casefold(), 0
    hits: list[Hit] = []
    for event in events.history(context, found):
        words = _text_of(event)
        position = words.casefold().find(wanted)
        if position < 0:
            continue
        count += 1
        if event.seq > after and len(hits) < most:
            around = words[max(0, position - _CONTEXT_CHARS) : position + len(text) + _CONTEXT_CHARS]
            hits.append(Hit(seq=event.seq, kind=event.kind, at=event.at, text=" ".join(around.split())))
    return Hits(count=count, hits=hits)


def _text_of(event: events.Event) -> str:
    """All text of a step, in order."""
    parts = (event.label, event.messages, event.intents, event.outcomes, event.status, event.answer, event.note)
    return "\n".join(_texts(parts))[:_MAX_TEXT]


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from _texts(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _texts(one)


def checkpoint_rows(context: Context, found: Found, *, after: int, upto: int | None) -> list[Checkpoint]:
    """The checkpoints with after < seq <= upto, including those stored by ancestors."""
    newest = found.whole_head().seq
    return [
        listing.checkpoint_of_row(stretch.session, row, found.identity.model_at(row.seq))
        for stretch in stretches(
            chain_of(context.store, found.identity), after=after, upto=newest if upto is None else min(upto, newest)
        )
        for row in context.store.checkpoints(stretch.session, after=stretch.after, upto=stretch.upto)
    ]


def steps(context: Context, found: Found, *, after: int, upto: int | None) -> Iterator[events.Event]:
    """The steps with after < seq <= upto as events, oldest first."""
    newest = found.whole_head().seq
    chain = chain_of(context.store, found.identity)
    for stretch in stretches(chain, after=after, upto=newest if upto is None else min(upto, newest)):
        for step in context.store.steps(stretch.session, after=stretch.after, upto=stretch.upto):
            yield events.event_from(step, found)
