"""Which sessions need attention: exact counts at any size, and the most urgent of them.

Every waiting, failed, halted or terminated session does, and the store knows their number. Which waiting ones wait for
a decision, and which running ones are quiet or lost, is visible in their heads only, so those are all read. The cost is
that of waiting and running sessions, not of all.
"""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import Final, Literal, get_args

import msgspec

from relight.history.listing import PAGE, every_session, info_of
from relight.ports.store import Query
from relight.sessions.context import Context
from relight.values.info import AttentionKind, SessionInfo
from relight.values.status import Status

INSPECTED: Final[frozenset[Status]] = frozenset({"waiting", "working", "spawning"})
"""statuses whose sessions are read one by one"""
COUNTED: Final[tuple[Literal["failed", "terminated", "halted"], ...]] = ("failed", "terminated", "halted")
"""statuses whose sessions all need attention: counted by the store, and only the newest are read"""


class Needing(msgspec.Struct, frozen=True, kw_only=True):
    """Sessions that need attention, counted and listed."""

    total: int
    """exact number of all of them"""
    counts: dict[AttentionKind, int]
    """the same by kind; they add up to the total"""
    sessions: list[SessionInfo]
    """the most urgent first; may be fewer than `total`"""


def needing(context: Context, *, most: int, every_halted: bool = False) -> Needing:
    """The counts, and up to `most` sessions of each kind that is only counted. `every_halted`: all that are halted."""
    store = context.store
    stored = store.count_sessions()
    found = [info_of(context, record) for record in every_session(store, Query(statuses=INSPECTED))]
    found = [info for info in found if info.attention is not None]
    counts: Counter[AttentionKind] = Counter(info.attention.kind for info in found if info.attention is not None)
    for status in COUNTED:
        query = Query(statuses=frozenset({status}))
        if status == "halted" and every_halted:
            newest = every_session(store, query)
        elif most <= PAGE:  # one small page: the strip of every page needs five sessions, not two hundred
            newest = iter(store.list_sessions(msgspec.structs.replace(query, limit=most)))
        else:
            newest = islice(every_session(store, query), most)
        shown = [info_of(context, record) for record in newest]
        damaged = sum(info.attention is not None and info.attention.kind == "corrupt" for info in shown)
        counts["corrupt"] += damaged
        counts[status] += max(stored.get(status, 0), len(shown)) - damaged
        found += [info for info in shown if info.attention is not None]
    order = {kind: rank for rank, kind in enumerate(get_args(AttentionKind))}
    found.sort(key=lambda info: order[info.attention.kind] if info.attention is not None else len(order))
    counts = Counter({kind: number for kind, number in counts.items() if number})
    return Needing(total=sum(counts.values()), counts=dict(counts), sessions=found)
