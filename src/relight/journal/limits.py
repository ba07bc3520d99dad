"""Limits: how much a session has worked and spent, and which of its limits that reaches.

A limit is reached when it is used up; no further model call begins then. Usage is counted over all attempts, from the
head alone, so that a kill does not reset it. A budget of money or tokens covers the session's children as well, and
theirs; a time limit covers the session alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from relight.values.lease import Instant
from relight.values.policy import RunPolicy
from relight.values.session import Head
from relight.values.status import LIVE, Failure, StatusChange
from relight.values.step import Draft
from relight.values.usage import Usage

Limit = Literal["budget", "budget_tokens", "time_limit"]
KIND = "limit"
"""failure kind of a session halted at a limit"""
_ROUNDING = 1e-9
"""ten replies of 0.1 are 0.9999999999999999: a sum that falls short by so little has reached its budget"""


class Reached(msgspec.Struct, frozen=True, kw_only=True):
    """A limit that is used up, or that can no longer be counted."""

    limit: Limit
    used: float | None
    """None: unknown, so the limit cannot be enforced"""
    allowed: float
    why: str
    """one line for a person"""
    cure: str | None = None
    """how one allows more, where the limit is that of a session above"""
    by_others: bool = False
    """the session's own usage does not reach it: it may work on until its next model call"""

    @property
    def change(self) -> StatusChange:
        """The status change to `halted` that it leads to."""
        fields: dict[str, str | int | float | bool | None] = {
            "limit": self.limit,
            "used": self.used,
            "allowed": self.allowed,
        }
        if self.cure is not None:
            fields["cure"] = self.cure
        return StatusChange(status="halted", reason=self.why, failure=Failure(kind=KIND, text=self.why, fields=fields))


def worked_since(head: Head, draft: Draft, *, at_us: int, now: Instant) -> int:
    """Working time between the newest step and this one, in microseconds.

    If this attempt takes over from one that died, its time counts up to its last sign of life, the last renewal of its
    lease. Work after that was not observed, except by its supervisor, which halts it.
    """
    if head.status not in LIVE:
        return 0
    if draft.claim is None and draft.status is None:  # nearly every step
        return max(0, at_us - head.updated_us)
    seen = _seen_since(head, draft, at_us=at_us, now=now)
    return seen if draft.status is None else max(seen, _measured_us(draft) - head.worked_us)


def _measured_us(draft: Draft) -> int:
    """Time measured by the process that halts it at its time limit; 0 if there is none."""
    failure = draft.status.failure if draft.status is not None else None
    used = failure.fields.get("used") if failure is not None and failure.fields.get("limit") == "time_limit" else None
    return round(used * 1e6) if isinstance(used, int | float) else 0


def _seen_since(head: Head, draft: Draft, *, at_us: int, now: Instant) -> int:
    if draft.claim is None or (draft.attempt is not None and draft.attempt.number == head.attempt):
        return max(0, at_us - head.updated_us)
    return _seen_of_the_dead(head, at_us=at_us, now=now)


def _seen_of_the_dead(head: Head, *, at_us: int, now: Instant) -> int:
    passed, lease = max(0, at_us - head.updated_us), head.lease
    # After a reboot the last renewal cannot be compared with now. Counting nothing errs in the user's favour; counting
    # everything would charge the time the machine was off.
    if lease is None or lease.deadline.timeline != now.timeline:
        return 0
    unseen = now.us - (lease.deadline.us - round(lease.seconds * 1e6))
    return max(0, passed - max(0, unseen))


def worked_seconds(head: Head, *, now_us: int) -> float:
    """How long it has worked so far."""
    running = max(0, now_us - head.updated_us) if head.status in LIVE else 0
    return (head.worked_us + running) / 1e6


def known_us(head: Head, *, now_us: int, now: Instant) -> int:
    """Working time as the next attempt will know it: for one that died, up to its last sign of life."""
    return head.worked_us + (_seen_of_the_dead(head, at_us=now_us, now=now) if head.status in LIVE else 0)


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """A budget that covers a session: its own, or that of a session above it; and what was spent of it."""

    policy: RunPolicy
    own: Usage
    """of the session whose budget it is"""
    below: Usage = Usage()
    """of all children below that session"""
    holder: str | None = None
    """title of the session above whose budget it is; None: the session's own"""
    has_command: bool = False
    """relight starts the session whose budget it is"""


def spent(accounts: Iterable[Account]) -> Reached | None:
    """The first budget of money or tokens that is used up, if any."""
    return next((limit for one in accounts if (limit := _spent(one)) is not None), None)


def _spent(account: Account) -> Reached | None:
    found = _used_up(account.policy, account.own + account.below)
    if found is None:
        return None
    limit, used, allowed = found
    of = f" of {account.holder}" if account.holder is not None else ""
    shared = ", with its children" if account.below != Usage() else ""
    if limit == "budget":
        why = f"budget{of} reached: {money(used)} of {money(allowed)}{shared}"
    else:
        why = f"token budget{of} reached: {used} of {allowed} tokens{shared}"
    cure = raised(account.holder, limit, has_command=account.has_command) if account.holder is not None else None
    alone = account.holder is None and _used_up(account.policy, account.own) is not None
    return Reached(limit=limit, used=used, allowed=allowed, why=why, cure=cure, by_others=not alone)


def _used_up(policy: RunPolicy, usage: Usage) -> tuple[Limit, float, float] | None:
    """The limit, what was used of it, and what it allows."""
    if policy.budget is not None and usage.cost is not None and usage.cost >= policy.budget - _ROUNDING:
        return "budget", usage.cost, policy.budget
    if policy.budget_tokens is not None and usage.tokens >= policy.budget_tokens:
        return "budget_tokens", usage.tokens, policy.budget_tokens
    return None


def overtime(policy: RunPolicy, head: Head, *, now_us: int) -> Reached | None:
    """The time limit, if it is used up."""
    if policy.seconds is None:
        return None
    return _over(policy.seconds, worked_seconds(head, now_us=now_us))


def _over(allowed: float, worked: float) -> Reached | None:
    if worked < allowed:
        return None
    shown = f"{worked:.0f}" if worked >= 10 else f"{worked:.2g}"
    why = f"time limit reached: worked {shown} s of {allowed:g} s"
    return Reached(limit="time_limit", used=round(worked, 3), allowed=allowed, why=why)


def overtime_before(policy: RunPolicy, head: Head, *, now_us: int, now: Instant) -> Reached | None:
    """The time limit, if it is used up while no process works on it: the time since it died is no working time."""
    return None if policy.seconds is None else _over(policy.seconds, known_us(head, now_us=now_us, now=now) / 1e6)


def uncounted(policy: RunPolicy, what: str) -> Reached:
    """A limit of money or tokens that cannot be enforced, because replies do not report their usage."""
    limit: Limit = "budget" if policy.budget is not None else "budget_tokens"
    allowed = policy.budget if policy.budget is not None else policy.budget_tokens or 0
    return Reached(limit=limit, used=None, allowed=allowed, why=f"the budget cannot be counted: {what}")


def is_limit(failure: Failure | None) -> bool:
    """Whether it was halted at one of its own limits."""
    return failure is not None and failure.kind == KIND


def raised(name: str, limit: str, *, has_command: bool) -> str:
    """How one allows a session more: a command, or what its program says where relight does not start it."""
    return f"relight resume {name} --{limit.replace('_', '-')} N" if has_command else f"rl.session({name!r}, {limit}=N)"


def more_for(failure: Failure | None, name: str, *, has_command: bool) -> str | None:
    """How one allows more to a session that was halted at a limit; None where more of it is no cure."""
    if failure is None or not is_limit(failure) or failure.fields.get("used") is None:
        return None
    cure = failure.fields.get("cure")
    return str(cure) if cure else raised(name, str(failure.fields.get("limit", "budget")), has_command=has_command)


def money(amount: float) -> str:
    """US dollars as people write them; small amounts with as many digits as needed."""
    return f"${amount:.2f}" if amount == 0 or amount >= 0.01 else f"${amount:.2g}"
