"""Which sessions need somebody: exact numbers at any size, and the most urgent of them.

Whoever waits, failed, halted or was stopped needs somebody, and of those the store knows the number. Which of the
waiting ones wait for a decision about a call, and which of the running ones are quiet or lost, is seen in their heads
alone; those are all looked at. So the cost is that of the waiting, halted and running sessions, not of all.
"""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import Final, Literal, get_args

import msgspec

from relight.history.listing import every_session, info_of
from relight.ports.store import Query
from relight.sessions.context import Context
from relight.values.info import AttentionKind, SessionInfo
from relight.values.status import Status

LOOKED_AT: Final[frozenset[Status]] = frozenset({"waiting", "halted", "working", "spawning"})
"""looked at one by one"""
COUNTED: Final[tuple[Literal["failed", "terminated"], ...]] = ("failed", "terminated")
"""every one of them needs somebody; they are counted, and the newest are shown"""


class Needing(msgspec.Struct, frozen=True, kw_only=True):
    """What needs somebody."""

    total: int
    """all of them, exact"""
    counts: dict[AttentionKind, int]
    """the same by kind; they add up to the total"""
    sessions: list[SessionInfo]
    """the most urgent first; fewer than `total` where there are many"""


def needing(context: Context, *, most: int) -> Needing:
    """The numbers, and up to `most` sessions of each kind that is only counted."""
    store = context.store
    stored = store.count_sessions()
    found = [info_of(context, record) for record in every_session(store, Query(statuses=LOOKED_AT))]
    found = [info for info in found if info.attention is not None]
    counts: Counter[AttentionKind] = Counter(info.attention.kind for info in found if info.attention is not None)
    for status in COUNTED:
        newest = islice(every_session(store, Query(statuses=frozenset({status}))), most)
        shown = [info_of(context, record) for record in newest]
        damaged = sum(info.attention is not None and info.attention.kind == "corrupt" for info in shown)
        counts["corrupt"] += damaged
        counts[status] += max(stored.get(status, 0), len(shown)) - damaged
        found += [info for info in shown if info.attention is not None]
    order = {kind: place for place, kind in enumerate(get_args(AttentionKind))}
    found.sort(key=lambda info: order[info.attention.kind] if info.attention is not None else len(order))
    counts = Counter({kind: number for kind, number in counts.items() if number})
    return Needing(total=sum(counts.values()), counts=dict(counts), sessions=found)
