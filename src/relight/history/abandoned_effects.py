"""Reads the steps that are not visible, for what they say about effects.

They are on branches that a rewind left and, for a fork, in the journals of its ancestors up to the moment it was made.
If no branch was ever left and nothing open came with a fork, nothing is read or decoded: opening then costs what the
visible conversation costs. What the steps mean is decided in journal/effects/ledger.py.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping

from relight.journal.codec import Undecodable, decode_changes
from relight.journal.effects.ledger import CARRIES_EFFECTS, EffectLedger, branch_points
from relight.journal.effects.planned_calls import notice_for, planned_calls
from relight.journal.fold import Fold
from relight.journal.lineage import visible
from relight.ports.store import Store
from relight.values.call import PlannedCall
from relight.values.session import Identity, Parent
from relight.values.step import Carried, Step


def attach_hidden_effects(
    store: Store, chain: list[Identity], fold: Fold, steps: list[Step], path: list[int], broken: Collection[int]
) -> None:
    """Add to the fold what is known about its effects from steps outside it."""
    foreign = _has_inherited_open(fold, chain, path)
    # The common case: no branch was ever left, so nothing more is read or decoded.
    if len(path) == len(steps) and not foreign:
        return
    ledger = EffectLedger(fold)
    bases = {step.seq: step.base for step in steps}
    points, behind = branch_points(bases, path), dict[int, int]()
    own = _inherited_path(chain, steps, bases)
    for identity in reversed(chain):
        shared = _shared_with(chain, identity)
        left = [(one, points[one.seq]) for one in steps if one.session == identity.id and one.seq in points]
        if foreign and shared is not None:
            left += _after_fork_point(store, chain, identity, {**dict(zip(path, path, strict=True)), **points}, behind)
        begins = identity.parent.seq if identity.parent is not None else 0
        inherits = begins if begins in path else points.get(begins, behind.get(begins, 0))
        for step, left_at in left:
            if step.kind == "reset" and shared is not None and own.get(step.seq) == step.session:
                with contextlib.suppress(Undecodable):
                    ledger.take_carried(step, decode_changes(step.body).carried or Carried())
            if step.kind in CARRIES_EFFECTS and (step.kind != "message" or fold.has_open):
                with contextlib.suppress(Undecodable):  # damage off the visible path is reported by `verify` only
                    changes = decode_changes(step.body)
                    theirs = None if own.get(step.seq) == step.session else shared
                    older = (begins, max(inherits, left_at))
                    whole = step.seq not in broken
                    ledger.take(step, changes, left_at=left_at, shared=theirs, older=older, whole=whole)
    ledger.attach(chain[0].id, {one.id: one.name or one.id for one in chain})


def _inherited_path(chain: list[Identity], steps: list[Step], bases: Mapping[int, int]) -> Mapping[int, str]:
    """The steps that a fork began with, and the sessions that store them. They count as the fork's own life, even if
    it was rewound to before them."""
    parent = chain[0].parent
    if parent is None:
        return {}
    sessions = {step.seq: step.session for step in steps if step.seq <= parent.seq}
    last = next((step for step in steps if step.seq == parent.seq), None)
    begins = last.base if last is not None and last.kind == "rewind" else parent.seq
    return {seq: sessions[seq] for seq in visible(bases, head=begins, since=0) if seq in sessions}


def _has_inherited_open(fold: Fold, chain: list[Identity], path: list[int]) -> bool:
    """Whether something is open, or was before a rewind to before the fork point, that an ancestor began or requested,
    so that the ancestor may know more about it."""
    begins = chain[0].parent.seq if chain[0].parent is not None else 0
    if not begins or not path:
        return False
    return (
        (path[0] <= begins and begins not in path)
        or any(slot.session != chain[0].id for slot in fold.open_slots())
        or any(one.outcome is None and one.intent_seq <= begins for one in (*fold.once.values(), *fold.hooked.values()))
    )


def _forks_of(chain: list[Identity], identity: Identity) -> list[Parent]:
    """Fork points of the younger sessions, the youngest first."""
    younger = chain[: [one.id for one in chain].index(identity.id)]
    return [one.parent for one in younger if one.parent is not None]


def _shared_with(chain: list[Identity], identity: Identity) -> int | None:
    """The last step of this ancestor that the session inherits; None for the session itself."""
    return min((one.seq for one in _forks_of(chain, identity)), default=None)


def _after_fork_point(
    store: Store, chain: list[Identity], identity: Identity, points: Mapping[int, int], behind: dict[int, int]
) -> list[tuple[Step, int]]:
    """Steps that an ancestor had taken, beyond the inherited ones, when its fork was made; each with the visible
    step at which its branch was left. `behind` holds the same for steps of older ancestors, on which a fork may
    build."""
    parents = _forks_of(chain, identity)
    begins, known = min(one.seq for one in parents), parents[-1].known
    found: list[tuple[Step, int]] = []
    for step in store.steps(identity.id, after=begins, upto=known):
        behind[step.seq] = (points if step.base <= begins else behind).get(step.base, 0)
        found.append((step, behind[step.seq]))
    return found


def planned(fold: Fold, *, agent: bool) -> tuple[list[PlannedCall], str | None]:
    """What will be done about open calls, and what the model will be told about them."""
    calls = planned_calls(fold, agent=agent)
    return calls, notice_for(calls)
