"""Lineage: which steps are visible from a checkpoint, and in which sessions they lie.

Seq never goes back. A rewind appends a step whose base is its target, so the visible path is found by following
`base` from the head: it skips what was rewound and the rewind itself. A fork stores only its own suffix; below its
beginning its path continues in the parent, up to the checkpoint it was made from.
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
    """Where the steps (after, upto] lie. `chain` is the session, its parent, its parent's parent, and so on."""
    found: list[Stretch] = []
    for identity in chain:
        begins = identity.parent.seq if identity.parent is not None else 0
        low = max(after, begins)
        if upto > low:
            found.append(Stretch(session=identity.id, after=low, upto=upto))
        upto = min(upto, begins)
        if upto <= after:
            break
    return found[::-1]


def owner_of(chain: Sequence[Identity], seq: int) -> str:
    """The session in whose journal this seq lies."""
    for identity in chain:
        if identity.parent is None or seq > identity.parent.seq:
            return identity.id
    return chain[-1].id


class Named(Protocol):
    """A step as far as its files go."""

    @property
    def seq(self) -> int: ...

    @property
    def base(self) -> int: ...

    @property
    def snapshots(self) -> Mapping[str, str]: ...


def named_by(row: Mapping[str, str], step: Mapping[str, str]) -> bool:
    """Whether all snapshots in a row are those that its step named. Some may be missing: they can be deleted."""
    return all(step.get(root) == snapshot for root, snapshot in row.items())


def inherited(rows: Iterable[Named], seq: int, *, is_gone_on_from: bool) -> frozenset[str]:
    """The roots whose snapshot at `seq` some other checkpoint has for its own: it comes next on a path and took none.

    `is_gone_on_from`: a fork begins at `seq`, or the session stands there and its next step will come behind it.
    """
    named: Set[str] = frozenset()
    lacking: set[str] = set()
    following = []
    for row in rows:
        if row.seq == seq:
            named = row.snapshots.keys()
        elif row.base == seq:
            following.append(row.snapshots.keys())
    if is_gone_on_from:
        return frozenset(named)
    for own in following:
        lacking |= named - own
    return frozenset(lacking)


def visible(bases: Mapping[int, int], *, head: int, since: int) -> list[int]:
    """The seqs on the path to `head`, oldest first, from the reset `since` on (0: from the beginning)."""
    path: list[int] = []
    seq, lowest = head, max(since, 1)
    for _ in range(len(bases)):
        if seq < lowest or seq not in bases:
            break
        path.append(seq)
        if seq == since:
            break
        seq = bases[seq]
    return path[::-1]
