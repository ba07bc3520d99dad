"""Retention: the policy of a store, and the sweep it requires. Nothing is deleted without a policy.

With one, `serve`, workers and supervisors remove finished sessions whose retention is over, at most once a day between
them: a record in the store holds the time of the last sweep, and the process that exchanges it does the sweep. Removals
are remembered by tombstones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Final, cast

import msgspec

from relight.errors import Conflict, NotFound, UsageError
from relight.history.listing import every_session
from relight.journal.queues.small_records import pack_record, unpack_record
from relight.journal.retention import days_text, ended_by_us, is_due, retention_days
from relight.ports.store import ExpiringStore, Query
from relight.sessions.context import Context
from relight.values.checkpoint import at
from relight.values.policy import Policy, Retention, StoredPolicy
from relight.values.tombstone import MAX_TOMBSTONES, Tombstone, digest_of

SETTING: Final = "RELIGHT_RETENTION"
_POLICY: Final = "retention"
_SWEPT: Final = "retention"
_CHECK_SECONDS: Final = 3600.0
MAX_SCANNED: Final = 2000
_PRUNE_ONE_IN: Final = 16
"""the oldest tombstones are pruned once in so many removals"""


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """Finished sessions that are retained although they ended long ago."""

    days: float
    sessions: int
    size_bytes: int
    more: bool
    """there are more than were counted"""


def policy_of(context: Context) -> Policy:
    """The setting of this process if there is one, else the policy stored in the store. Read-only."""
    asked = context.environment.get(SETTING, "").strip()
    if asked:
        return Policy(finished_days=_days(asked), set_by=SETTING)
    stored = _stored(context)
    if stored is None:
        return Policy(finished_days=None, set_by="")
    return Policy(finished_days=stored.finished_days, set_by=stored.set_by, set_us=stored.set_us)


def set_policy(context: Context, days: float | None, *, by: str) -> Policy:
    """Set the policy for every process that uses this store. None: nothing is removed."""
    if days is not None and not 0 <= days <= 36_500:
        raise UsageError(f"a retention is between 0 and 36500 days, not {days:g}")
    made = StoredPolicy(finished_days=days, set_us=context.clock.now_us(), set_by=by)
    context.store.put_record("policy", _POLICY, pack_record(made))
    if context.store.info.expires:
        cast(ExpiringStore, context.store).expire_after(days)
    return policy_of(context)


def kept_longer_than(context: Context, days: float, *, most: int = MAX_SCANNED) -> Kept:
    """How many finished sessions a policy of so many days would remove, with the size of their journals. Counts the
    newest `most`; `sweep --dry-run` is exact, and includes files."""
    before_us = ended_by_us(Retention(finished_days=days), context.clock.now_us())
    scanned = sessions = size = 0
    for record in islice(every_session(context.store, Query(statuses=Retention().statuses)), most):
        scanned += 1
        head = record.head
        if head is not None and head.ended_us is not None and head.ended_us <= before_us:
            sessions, size = sessions + 1, size + head.size_bytes
    return Kept(days=days, sessions=sessions, size_bytes=size, more=scanned == most)


def last_sweep_us(context: Context) -> int | None:
    """When the last sweep under a policy began."""
    noted = context.store.list_records("note").get(_SWEPT)
    return unpack_record(noted, int) if noted is not None else None


def is_sweep_due(context: Context) -> bool:
    """Whether there is a policy and no sweep within a day. Read-only."""
    return policy_of(context).finished_days is not None and is_due(last_sweep_us(context), context.clock.now_us())


class SweepCheck:
    """A supervisor's part: checks at once and then hourly whether a sweep is due, and starts it in a separate
    process. So a store with a policy is swept even if no server and no worker runs."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._checked_us: int | None = None

    def check(self) -> None:
        """Cheap, except once an hour; may be called often."""
        now_us = self._context.clock.instant().us
        if self._checked_us is not None and now_us - self._checked_us < _CHECK_SECONDS * 1e6:
            return
        self._checked_us = now_us
        if is_sweep_due(self._context):
            self._context.sweep_in_background()


def claim_sweep(context: Context) -> Retention | None:
    """The policy, for the one process that may sweep now; None for all others. A setting of this process becomes the
    store's policy here, so that other processes and readers see which policy applies."""
    policy = policy_of(context)
    if policy.finished_days is None:
        return None
    now_us = context.clock.now_us()
    before = context.store.list_records("note").get(_SWEPT)
    if not is_due(unpack_record(before, int) if before is not None else None, now_us):
        return None
    # A compare-and-set on the time of the last sweep: of all processes that find a sweep due, exactly one wins.
    if not context.store.exchange_record("note", _SWEPT, before, pack_record(now_us)):
        return None  # another process began one at the same moment
    stored = _stored(context)
    if policy.set_by == SETTING and (stored is None or stored.finished_days != policy.finished_days):
        set_policy(context, policy.finished_days, by=SETTING)
    return Retention(finished_days=policy.finished_days)


def _stored(context: Context) -> StoredPolicy | None:
    record = context.store.list_records("policy").get(_POLICY)
    return unpack_record(record, StoredPolicy) if record is not None else None


def _days(text: str) -> float | None:
    try:
        return retention_days(text)
    except ValueError as error:
        raise UsageError(f"{SETTING}: {error}") from None


# -- what is remembered of what went --------------------------------------------------------------------------------


@contextmanager
def tombstones_for(
    context: Context, sessions: Sequence[str], *, policy: Retention | None, by: str = "", steps: int = 0, size: int = 0
) -> Iterator[None]:
    """Around a removal. The tombstone is written first, so that a kill in between leaves no link that cannot be
    explained; one of a session that still exists is ignored. If the removal is refused, it is deleted again."""
    now_us = context.clock.now_us()
    made = Tombstone(
        at_us=now_us,
        digests=[digest_of(one) for one in sessions],
        by=by if policy is not None else "",
        finished_days=policy.finished_days if policy is not None else None,
        sessions=list(sessions) if policy is not None else [],
        steps=steps,
        size_bytes=size,
    )
    name = made.name(now_us)
    context.store.put_record("tombstone", name, pack_record(made))
    try:
        yield
    except (Conflict, NotFound):  # nothing was removed for certain; after any other error that is unknown
        context.store.put_record("tombstone", name, None)
        raise
    if made.digests[0][0] % _PRUNE_ONE_IN == 0:
        names = sorted(context.store.list_records("tombstone"))
        for old in names[: max(0, len(names) - MAX_TOMBSTONES)]:
            context.store.put_record("tombstone", old, None)


def tombstones(context: Context, *, after: str = "") -> dict[str, Tombstone]:
    """Remembered removals, oldest first, with names greater than `after`."""
    found = {
        name: unpack_record(record, Tombstone)
        for name, record in sorted(context.store.list_records("tombstone").items())
    }
    return {name: one for name, one in found.items() if one is not None and name > after}


def tombstone_of(context: Context, session: str) -> Tombstone | None:
    """How a session was removed, by its full id; None if unknown. The newest one counts."""
    digest = digest_of(session)
    for one in reversed(tombstones(context).values()):
        if digest in one.digests:
            return one
    return cast(ExpiringStore, context.store).expired(session) if context.store.info.expires else None


def removal_text(removed: Tombstone) -> str:
    """When and how a session was removed, in one line."""
    policy = f"by the retention policy of {days_text(removed.finished_days)}, {removed.by}"
    return f"removed {at(removed.at_us).astimezone():%Y-%m-%d %H:%M:%S} {policy if removed.by_policy else 'on request'}"
