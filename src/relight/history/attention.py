"""Which sessions need attention: exact counts at any size, and the most urgent of them.

Every waiting, failed, halted or terminated session does, and the store knows their number. Which waiting ones wait for
a decision, and which running ones are quiet or lost, is visible in their heads only, so those are all read. The cost is
that of waiting and running sessions, not of all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final, Literal, get_args

import msgspec

from relight.history.listing import PAGE, every_session, info_of
from relight.journal.queues.small_records import unpack_record
from relight.ports.store import Query
from relight.sessions.context import Context
from relight.values.acknowledged import MAX_ACKNOWLEDGED, Acknowledged
from relight.values.info import AttentionKind, SessionInfo
from relight.values.status import Status

INSPECTED: Final[frozenset[Status]] = frozenset({"waiting", "working", "spawning"})
"""statuses whose sessions are read one by one"""
COUNTED: Final[tuple[Literal["failed", "terminated", "halted"], ...]] = ("failed", "terminated", "halted")
"""statuses whose sessions all need attention: counted by the store, and only the newest are read"""


def _acknowledged(context: Context) -> dict[str, Acknowledged]:
    found = {name: unpack_record(one, Acknowledged) for name, one in context.store.list_records("acknowledged").items()}
    return {name: one for name, one in list(found.items())[:MAX_ACKNOWLEDGED] if one is not None}


def _covered(context: Context, known: Mapping[str, Acknowledged], info: SessionInfo) -> bool:
    """Whether the reason why this session needs attention was acknowledged, and is still the same."""
    one = known.get(info.id)
    return (
        one is not None
        and info.attention is not None
        and one.covers(info.seq, info.attention.kind, context.clock.now_us())
    )


def _covered_number(
    context: Context, known: Mapping[str, Acknowledged], status: Status, read: Sequence[SessionInfo]
) -> int:
    """How many sessions of a stored status are acknowledged. Those that were not read anyway are looked up; there are
    at most MAX_ACKNOWLEDGED."""
    infos = {info.id: info for info in read}
    for session in known.keys() - infos.keys():
        record = context.store.find(session)
        if record is not None and record.head is not None and record.head.status == status:
            infos[session] = info_of(context, record)
    return sum(_covered(context, known, info) for info in infos.values())


class Needing(msgspec.Struct, frozen=True, kw_only=True):
    """Sessions that need attention, counted and listed."""

    total: int
    """exact number of all of them"""
    counts: dict[AttentionKind, int]
    """the same by kind; they add up to the total"""
    sessions: list[SessionInfo]
    """the most urgent first; may be fewer than `total`"""
    statuses: dict[Status, int]
    """number of all sessions in each status; the store counts one whose process died by its last step, this does not"""


def needing(context: Context, *, most: int, every_halted: bool = False) -> Needing:
    """The counts, and up to `most` sessions of each kind that is only counted. `every_halted`: all that are halted."""
    store = context.store
    stored = store.count_sessions()
    found, statuses = [], Counter(stored)
    for record in every_session(store, Query(statuses=INSPECTED)):
        info = info_of(context, record)
        found.append(info)
        if record.head is not None and record.head.status != info.status:
            statuses.subtract([record.head.status])
            statuses.update([info.status])
    known = _acknowledged(context)
    found = [info for info in found if info.attention is not None and not _covered(context, known, info)]
    counts: Counter[AttentionKind] = Counter(info.attention.kind for info in found if info.attention is not None)
    for status in COUNTED:
        query = Query(statuses=frozenset({status}))
        if status == "halted" and every_halted:
            newest = every_session(store, query)
        elif most <= PAGE:  # one small page: the strip of every page needs five sessions, not two hundred
            newest = iter(store.list_sessions(msgspec.structs.replace(query, limit=most + len(known))))
        else:
            newest = islice(every_session(store, query), most + len(known))
        read = [info_of(context, record) for record in newest]
        shown = [info for info in read if not _covered(context, known, info)]
        damaged = sum(info.attention is not None and info.attention.kind == "corrupt" for info in shown)
        counts["corrupt"] += damaged
        counts[status] += (
            max(stored.get(status, 0), len(read)) - damaged - _covered_number(context, known, status, read)
        )
        found += [info for info in shown if info.attention is not None]
    order = {kind: rank for rank, kind in enumerate(get_args(AttentionKind))}
    found.sort(key=lambda info: order[info.attention.kind] if info.attention is not None else len(order))
    counts = Counter({kind: number for kind, number in counts.items() if number})
    return Needing(
        total=sum(counts.values()),
        counts=dict(counts),
        sessions=found,
        statuses={status: number for status, number in statuses.items() if number > 0},
    )
