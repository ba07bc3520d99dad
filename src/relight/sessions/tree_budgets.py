"""Budgets over a tree: what covers a session is its own budget and those of the sessions above it.

A budget of money or tokens covers its session and every child below it, wherever they run: what was spent is summed
from their heads as the store has them, before each model call. Nothing is reserved, so calls that are under way in
several sessions at once when the budget is reached are all paid for; none begins after that.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Final

import msgspec

from relight.journal.limits import Account, Reached, spent
from relight.ports.store import Record
from relight.system.lazy_module import LazyModule
from relight.values.usage import Usage

if TYPE_CHECKING:
    from relight.history import listing
    from relight.sessions.context import Context
    from relight.values.policy import RunPolicy
    from relight.values.session import Head
else:  # imported by `prepare`
    listing = LazyModule("relight.history.listing")

_MAX_ABOVE: Final = 100
"""sessions above one that are looked at"""
_LOOK_SECONDS: Final = 1.0
"""how long a session without a budget above it is taken to have none: one may be given to a parent that is resumed"""


def prepare() -> None:
    """Import what the budgets read, when a session that a limit covers is opened and not in its first append: an
    import that a signal handler interrupts would leave its lock taken (see Recorder)."""
    listing.below  # noqa: B018  the first access imports


class TreeBudgets:
    """The budgets that cover one session."""

    def __init__(self, context: Context, session: str, spawned_by: str | None) -> None:
        self._context, self._session, self._parent = context, session, spawned_by
        self._none_until_us = -1

    def covering(self, policy: RunPolicy) -> RunPolicy:
        """The session's policy with the smallest of the budgets that cover it: what must be counted of its replies."""
        policies = [policy, *(one.identity.policy for one in self._above())]
        money = [one.budget for one in policies if one.budget is not None]
        tokens = [one.budget_tokens for one in policies if one.budget_tokens is not None]
        if not money and not tokens:
            return policy
        return msgspec.structs.replace(policy, budget=min(money, default=None), budget_tokens=min(tokens, default=None))

    def spent(self, policy: RunPolicy, head: Head) -> Reached | None:
        """The budget that is used up, the session's own before those above it. None: a model call may begin."""
        return spent(self._accounts(policy, head))

    def _accounts(self, policy: RunPolicy, head: Head) -> Iterator[Account]:
        if policy.counts_usage:
            yield Account(policy=policy, own=head.usage, below=self._spent_below(self._session))
        for one in self._above():
            identity = one.identity
            yield Account(
                policy=identity.policy,
                own=one.head.usage if one.head is not None else Usage(),
                below=self._spent_below(identity.id),
                holder=identity.name or identity.id[:8],
                has_command=identity.command is not None,
            )

    def _spent_below(self, session: str) -> Usage:
        children = (record.head for _, record in listing.below(self._context.store, session, "child"))
        return reduce(add, (head.usage for head in children if head is not None), Usage())

    def _above(self) -> list[Record]:
        """Sessions above it that have a budget, the nearest first, as they are stored now."""
        if self._parent is None:
            return []
        now_us = self._context.clock.instant().us
        # A child without a budget above it appends like any other session: it does not pay for a lookup at each step.
        if now_us < self._none_until_us:
            return []
        held, above = [], self._parent
        for _ in range(_MAX_ABOVE):
            record = self._context.store.find(above)
            if record is None:
                break  # removed, or in another store: its budget ended with it
            if record.identity.policy.counts_usage:
                held.append(record)
            if record.identity.spawned_by is None:
                break
            above = record.identity.spawned_by
        if not held:
            self._none_until_us = now_us + round(_LOOK_SECONDS * 1e6)
        return held
