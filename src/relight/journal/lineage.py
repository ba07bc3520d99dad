"""Lineage: which steps are visible from a checkpoint, and which sessions store them.

A seq is never reused. A rewind appends a step whose base is its target, so the visible path is found by following
`base` from the head: it skips what was rewound and the rewind itself. A fork stores only its own suffix; before its
first step the path continues in the parent, from the checkpoint it was made at.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Protocol

import msgspec

from relight.values.session import Identity


class Stretch(msgspec.Struct, frozen=True, kw_only=True):
    """Steps of one session with after < seq <= upto."""

    session: str
    after: int
    upto: int


def stretches(chain: Sequence[Identity], *, after: int, upto: int) -> list[Stretch]:
    """Which sessions store the steps (after, upto]. `chain` is the session, its parent, its parent's parent, and so
    on."""
    found: list[Stretch] = []
    for identity in chain:
        begins = identity.parent.seq if identity.parent is not None else 0
        low = max(after, begins)
        if upto > low:
            found.append(Stretch(session=identity.id, after=low, upto=upto))
        # What a session inherits ends at its fork point: later steps of the parent are not part of it.
        upto = min(upto, begins)
        if upto <= after:
            break
    return found[::-1]


def owner_of(chain: Sequence[Identity], seq: int) -> str:
    """The session whose journal holds this seq."""
    for identity in chain:
        if identity.parent is None or seq > identity.parent.seq:
            return identity.id
    return chain[-1].id


class Named(Protocol):
    """A step with the snapshots it names."""

    @property
    def seq(self) -> int: ...

    @property
    def base(self) -> int: ...

    @property
    def snapshots(self) -> Mapping[str, str]: ...


def named_by(row: Mapping[str, str], step: Mapping[str, str]) -> bool:
    """Whether all snapshots of a row are those that its step named. Some may be missing: they can be deleted."""
    return all(step.get(root) == snapshot for root, snapshot in row.items())


def inherited(rows: Iterable[Named], seq: int, *, has_successor: bool) -> frozenset[str]:
    """The roots whose snapshot at `seq` another checkpoint relies on, because it follows on a path and took none
    itself.

    `has_successor`: a fork begins at `seq`, or it is the head, so that the next step will follow it.
    """
    named: Set[str] = frozenset()
    lacking: set[str] = set()
    following = []
    for row in rows:
        if row.seq == seq:
            named = row.snapshots.keys()
        elif row.base == seq:
            following.append(row.snapshots.keys())
    if has_successor:
        return frozenset(named)
    for own in following:
        lacking |= named - own
    return frozenset(lacking)


def visible(bases: Mapping[int, int], *, head: int, since: int) -> list[int]:
    """The seqs on the path to `head`, oldest first, from the reset `since` on (0: from the beginning)."""
    path: list[int] = []
    seq, lowest = head, max(since, 1)
    # Bounded by the number of steps: a damaged journal could contain a cycle of bases.
    for _ in range(len(bases)):
        if seq < lowest or seq not in bases:
            break
        path.append(seq)
        if seq == since:
            break
        seq = bases[seq]
    return path[::-1]
