"""Sweep: remove finished sessions whose retention is over. Bounded and counted."""

from __future__ import annotations

from typing import Final

from relight.errors import Conflict
from relight.history.listing import directly_below, oldest_first
from relight.journal.retention import due, ended_by_us
from relight.operations.remove import KINDS, Removed, remove_sessions
from relight.operations.retention import claim_sweep
from relight.ports.store import Query, Record
from relight.sessions.context import Context
from relight.values.policy import Retention
from relight.values.session import Head, Identity

_SWEEP_TRIES: Final = 20
_SWEEP_ROUNDS: Final = 100
"""rounds of `max_sessions` each in one daily sweep"""


def sweep(context: Context, policy: Retention, *, dry_run: bool = False, by: str = "") -> Removed:
    """Remove finished sessions whose retention is over; never an unfinished one, never one that a retained fork needs.

    `by`: who sweeps, for tombstones and the audit log.
    """
    for _ in range(_SWEEP_TRIES):
        try:
            return _sweep(context, policy, dry_run=dry_run, by=by)
        except Conflict:
            continue  # one of them was resumed or forked meanwhile: read again
    raise Conflict("sessions kept changing during the sweep; nothing was removed")


def sweep_if_due(context: Context, *, by: str) -> Removed | None:
    """The daily sweep under the store's policy, by the first process that asks for it; None without a policy, or if
    there was a sweep within the last day."""
    policy = claim_sweep(context)
    if policy is None:
        return None
    removed = sweep(context, policy, by=by)
    for _ in range(_SWEEP_ROUNDS):
        if len(removed) % policy.max_sessions or not removed.sessions:
            break
        more = sweep(context, policy, by=by)
        if not more.sessions:
            break
        removed = _merged(removed, more)
    return removed


def _merged(one: Removed, other: Removed) -> Removed:
    return Removed(
        sessions=one.sessions + other.sessions,
        names=one.names + other.names,
        steps=one.steps + other.steps,
        size_bytes=one.size_bytes + other.size_bytes,
        file_bytes=one.file_bytes + other.file_bytes,
    )


def _sweep(context: Context, policy: Retention, *, dry_run: bool, by: str) -> Removed:
    going = _due(context, policy)
    if not dry_run:
        _clear_orphaned_directories(context)
    return remove_sessions(
        context,
        going,
        dry_run=dry_run,
        thorough=False,
        policy=policy,
        by=by,
    )


def _due(context: Context, policy: Retention) -> list[tuple[Identity, Head]]:
    """What a sweep removes now. Read are the sessions that are old enough, those begun first before the others, until
    as many may go as one sweep removes; and their families, whatever the age."""
    now_us = context.clock.now_us()
    begun_by_then = Query(statuses=policy.statuses, before=(ended_by_us(policy, now_us) + 1, ""))
    found: dict[str, tuple[Identity, Head]] = {}
    related: dict[str, list[str]] = {}
    going: list[Identity] = []
    for page in oldest_first(context.store, begun_by_then, policy.max_sessions):
        waiting = list(page)
        while waiting:
            record = waiting.pop()
            if record.identity.id not in related and record.head is not None:
                family = _related(context, record.identity)
                related[record.identity.id] = [one.identity.id for one in family]
                found[record.identity.id] = (record.identity, record.head)
                waiting += family
        going = due(list(found.values()), related, policy, now_us=now_us)
        if len(going) >= policy.max_sessions:
            break
    return [found[identity.id] for identity in going]


def _related(context: Context, identity: Identity) -> list[Record]:
    """The sessions that must not stay if this one is removed: what refers to it, and the parent that would look for
    it."""
    parent = context.store.find(identity.spawned_by) if identity.spawned_by is not None else None
    below = [record for _, record in directly_below(context.store, identity.id, *KINDS)]
    return below if parent is None else [parent, *below]


def _clear_orphaned_directories(context: Context) -> None:
    """Remove run directories of sessions that no longer exist."""
    for session in context.run_directories():
        if context.store.find(session) is None:
            context.remove_run_directory(session)
