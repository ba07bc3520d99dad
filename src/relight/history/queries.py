"""Queries over many sessions: leases, trees, full-text search. Read-only; each has a bound."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from typing import Any, Final

import msgspec

from relight.history import events, listing
from relight.history.listing import Relation
from relight.history.loading import Found, chain_of, resolve
from relight.journal.lineage import stretches
from relight.journal.search.names import asked
from relight.journal.status import evidence_lines
from relight.ports.store import Query, Record
from relight.sessions.context import Context
from relight.sessions.opening import evidence_of
from relight.values.checkpoint import Checkpoint, at
from relight.values.info import SessionInfo
from relight.values.session import Identity
from relight.values.status import LIVE

MAX_TREE: Final = 1000
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
    """A session in its tree."""

    session: SessionInfo
    forked_at: int | None
    depth: int
    how: Relation | None = None
    """what it is to the session above it; None for the first of the tree"""


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
    """The whole tree of a session: each child below its parent and each fork below its origin, oldest first, children
    before forks."""
    root = _first_of(context, found.identity)
    left: list[tuple[Record, int, Relation | None]] = [(root, 0, None)]
    branches: list[Branch] = []
    seen = {root.identity.id}  # a child that a fork has of its original's is also a fork of that one
    while left and len(branches) < MAX_TREE:
        record, depth, how = left.pop()
        parent = record.identity.parent
        info = listing.info_of(context, record)
        branches.append(Branch(session=info, forked_at=parent.seq if parent else None, depth=depth, how=how))
        under = list(islice(listing.directly_below(context.store, record.identity.id, "child", "fork"), MAX_TREE))
        new = [(one, depth + 1, kind) for kind, one in under if one.identity.id not in seen]
        seen |= {one.identity.id for one, _, _ in new}
        left += sorted(new, key=lambda entry: entry[2] == "child")  # each kind newest first: the oldest child is next
    return branches


def _first_of(context: Context, identity: Identity) -> Record:
    """The session that the others of a tree descend from, as far as they are in this store."""
    for _ in range(MAX_TREE):
        above = identity.spawned_by or (identity.parent.session if identity.parent is not None else None)
        record = context.store.find(above) if above is not None else None
        if record is None:
            break
        identity = record.identity
    return Record(identity=(found := resolve(context.store, identity.id)).identity, head=found.head)


def search(context: Context, found: Found, text: str, *, after: int, most: int) -> Hits:
    """Steps that contain a text in messages, calls, results or reasons, of a checkpoint those up to it. All are
    counted; the first `most` after a seq are returned."""
    wanted, count = asked(text), 0
    hits: list[Hit] = []
    for event in events.history(context, found):
        if found.seq is not None and event.seq > found.seq:
            break
        words = _text_of(event)
        position = asked(words).find(wanted)
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
