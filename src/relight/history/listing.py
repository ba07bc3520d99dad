"""Listing: sessions with their derived status, page by page, newest first, or in another order.

Every store has an index by creation, so that a page costs what it shows. A store that has indexes for other orders
(`StoreInfo.ordered`) is asked for the first `limit` of one; in any other all heads are read, one page at a time, and
only the best `limit` are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from heapq import nlargest, nsmallest
from itertools import pairwise
from typing import Any, Final, Literal, NamedTuple, cast

import msgspec

from relight.history.loading import Found
from relight.journal.codec import VERSION
from relight.journal.status import QUIET_SECONDS, describe
from relight.ports.store import CheckpointRow, OrderedStore, Place, Query, Record, Store
from relight.sessions.context import Context
from relight.sessions.opening import evidence_of
from relight.values.checkpoint import Checkpoint, at, public_snapshot
from relight.values.info import Attention, SessionInfo
from relight.values.session import Head, Identity
from relight.values.status import LIVE

PAGE: Final = 200
_ATTACHABLE_RUNTIME: Final = "tmux"
"""the runtime whose terminal a person can attach to"""
_MAX_GAP_STEPS: Final = 200
MAX_TREE: Final = 10_000
"""sessions of one tree"""
_ALL: Final = 2**62
_GROWTH: Final = 4
"""how many times as many sessions are read where too few of those read are shown"""
Relation = Literal["child", "fork"]


class _Sorted(NamedTuple):
    record: Callable[[Record], int | float | str]
    info: Callable[[SessionInfo], int | float | str]
    """the same value of the session as users see it"""


SORTS: Final[dict[str, _Sorted]] = {
    "created": _Sorted(lambda one: one.identity.created_us, lambda info: microseconds(info.created_at)),
    "updated": _Sorted(
        lambda one: one.head.updated_us if one.head else one.identity.created_us,
        lambda info: microseconds(info.updated_at),
    ),
    "name": _Sorted(
        lambda one: (one.identity.name or one.identity.id).casefold(),
        lambda info: (info.name or info.id).casefold(),
    ),
    "cost": _Sorted(lambda one: _cost(one.head.usage.cost if one.head else None), lambda info: _cost(info.cost)),
    "steps": _Sorted(lambda one: one.head.seq if one.head else 0, lambda info: info.seq),
}
"""by what a list can be sorted, upwards; with a minus before the name, downwards"""
NEWEST: Final = "-created"


def _cost(cost: float | None) -> float:
    return -1.0 if cost is None else float(cost)


def every_session(store: Store, query: Query | None = None) -> Iterator[Record]:
    """All matching sessions, page by page. Bounded by the number of sessions, since pages never overlap."""
    query = msgspec.structs.replace(query or Query(), limit=PAGE)
    while True:
        page = store.list_sessions(query)
        yield from page
        if len(page) < PAGE:
            return
        last = page[-1].identity
        query = msgspec.structs.replace(query, before=(last.created_us, last.id))


def candidates(store: Store, query: Query, sort: str, *, before: Place | None, limit: int | None) -> Iterable[Record]:
    """Sessions among which the first `limit` of an order are."""
    if limit is None or not store.info.ordered:
        return every_session(store, query)
    ordered = cast(OrderedStore, store)
    return ordered.list_ordered(msgspec.structs.replace(query, limit=limit), sort, before)


def in_order(records: Iterable[Record], sort: str, *, before: Place | None, limit: int) -> list[Record]:
    """The first `limit` sessions of an order, after a place in it; all are read, and so many kept."""
    value = SORTS[sort.removeprefix("-")].record
    descending = sort.startswith("-")

    def key(record: Record) -> Any:
        return value(record), record.identity.id

    if before is not None:
        last: Any = before
        records = (one for one in records if (key(one) < last if descending else key(one) > last))
    return (nlargest if descending else nsmallest)(limit, records, key=key)


def first_in_order(
    store: Store,
    query: Query,
    sort: str,
    *,
    before: Place | None,
    limit: int | None,
    is_shown: Callable[[Record], bool],
) -> list[Record]:
    """The first `limit` sessions of an order, after a place in it, of those that are shown: what a store has as
    `working` may be shown as `terminated`. More are read from an index while too few of them are."""
    if limit is None or not store.info.ordered:
        most = _ALL if limit is None else limit
        return in_order(filter(is_shown, every_session(store, query)), sort, before=before, limit=most)
    size = limit
    while True:
        records = list(candidates(store, query, sort, before=before, limit=size))
        found = in_order(filter(is_shown, records), sort, before=before, limit=limit)
        if len(found) >= limit or len(records) < size:
            return found
        size *= _GROWTH


def oldest_first(store: Store, query: Query, size: int) -> Iterator[list[Record]]:
    """All matching sessions, those begun first before the others, in pages of so many; in one page where the store has
    no index for it."""
    if not store.info.ordered:
        yield list(every_session(store, query))
        return
    place: Place | None = None
    while True:
        page = in_order(
            candidates(store, query, "created", before=place, limit=size), "created", before=place, limit=size
        )
        yield page
        if len(page) < size:
            return
        place = page[-1].identity.created_us, page[-1].identity.id


def place_of(info: SessionInfo, sort: str = NEWEST) -> Place:
    """The place of a session in an order, for `before` of the next page."""
    return SORTS[sort.removeprefix("-")].info(info), info.id


def microseconds(time: datetime) -> int:
    """A time in microseconds since 1970."""
    return round(time.timestamp() * 1e6)


def info_of(context: Context, found: Found | Record, *, tree: bool = False) -> SessionInfo:
    """One session with status, attention and evidence. A damaged head is reported, not hidden."""
    if found.head is None:
        return _broken(context, found.identity)
    head = found.head
    evidence = evidence_of(context, head)
    # Reading the gaps costs a query per session, so it is done only for those that could be called quiet at all.
    if head.status in LIVE and evidence.now_us - head.updated_us > QUIET_SECONDS * 1e6:
        evidence = msgspec.structs.replace(evidence, gaps_us=_gaps(context, head))
    if tree:
        evidence = msgspec.structs.replace(evidence, cost_tree=_tree_cost(context, found.identity, head))
    info = describe(found.identity, head, evidence)
    if info.status in LIVE and head.handle and found.identity.runtime == _ATTACHABLE_RUNTIME:
        return msgspec.structs.replace(info, attach=context.runtime(found.identity).attach_command(head.handle))
    return info


def _gaps(context: Context, head: Head) -> tuple[int, ...]:
    rows = context.store.checkpoints(head.session, after=max(0, head.seq - _MAX_GAP_STEPS))
    return tuple(after.at_us - before.at_us for before, after in pairwise(rows))


def directly_below(store: Store, session: str, *hows: Relation) -> Iterator[tuple[Relation, Record]]:
    """The children and forks of a session, or one kind of them, newest first."""
    for how in hows:
        query = Query(spawned_by=session) if how == "child" else Query(parent=session)
        yield from ((how, record) for record in every_session(store, query))


def below(store: Store, session: str, *hows: Relation, most: int = MAX_TREE) -> Iterator[tuple[Relation, Record]]:
    """All sessions below one, each once, those above before those below; at most so many."""
    waiting, seen = [session], {session}
    for position in range(most):
        if position >= len(waiting):
            return
        for how, record in directly_below(store, waiting[position], *hows):
            if record.identity.id not in seen and len(seen) <= most:
                seen.add(record.identity.id)
                waiting.append(record.identity.id)
                yield how, record


def _tree_cost(context: Context, identity: Identity, head: Head) -> float | None:
    """Cost of the session and all children and forks below it; None if no cost is known."""
    family = (record.head for _, record in below(context.store, identity.id, "child", "fork"))
    costs = [one.usage.cost for one in (head, *family) if one is not None and one.usage.cost is not None]
    return sum(costs) if costs else None


def _broken(context: Context, identity: Identity) -> SessionInfo:
    name = identity.name or identity.id[:8]
    head = Head(session=identity.id, status="terminated", reason="its head row is damaged")
    info = describe(identity, head, evidence_of(context, head))
    text, cure = "its head row is damaged", f"relight resume {name} --from-last-good"
    attention = Attention(kind="corrupt", since=at(identity.created_us), text=text, cure=cure)
    return msgspec.structs.replace(info, attention=attention)


def checkpoint_of_row(session: str, row: CheckpointRow, model: str | None) -> Checkpoint:
    """A step's row as users see it."""
    return Checkpoint(
        id=f"{session}@{row.seq}",
        session=session,
        seq=row.seq,
        kind=row.kind,
        label=row.label,
        created_at=at(row.at_us),
        turns=row.turns,
        message_count=row.message_count,
        model=model,
        snapshot=public_snapshot(row.snapshots),
        size_bytes=row.size_bytes,
        version=VERSION,
    )
