"""Policies: numbers a user may set, with the defaults relight stands by."""

from __future__ import annotations

from typing import Final

import msgspec

from relight.values.status import FINISHED, Status

DAY: Final = 86_400.0


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """What a sweep may remove. An unfinished session, one that could still be resumed, never goes by default."""

    finished_days: float = 7.0
    """so long after its end a session may go"""
    statuses: frozenset[Status] = FINISHED
    """which sessions count as finished"""
    max_sessions: int = 1000
    """most sessions one sweep removes; the next one goes on"""
    grace_seconds: float = 3600.0
    """captured files that no step names yet are kept for so long after they were written"""


class StoredPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """The retention policy of a store, kept in it, the same for every process that uses it."""

    finished_days: float | None
    """so long after its end a finished session goes; None: somebody said that nothing goes"""
    set_us: int
    set_by: str
    """who set it: a user on a host, the name of a token, or the setting RELIGHT_RETENTION"""


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """The retention policy that holds now, for this process on this store."""

    finished_days: float | None
    """None: nothing is removed"""
    set_by: str
    """empty: nobody set one"""
    set_us: int | None = None

    @property
    def is_set(self) -> bool:
        """Has somebody decided, be it that nothing goes?"""
        return bool(self.set_by)


class Retry(msgspec.Struct, frozen=True, kw_only=True):
    """How often and how slowly something transient is tried again."""

    attempts: int = 6
    first_seconds: float = 1.0
    max_seconds: float = 60.0

    def delay_seconds(self, failures: int, jitter: float) -> float:
        """Before the next try after `failures` failures; `jitter` in [0, 1) spreads a herd."""
        ceiling = min(self.max_seconds, self.first_seconds * 2.0 ** min(failures - 1, 30))
        return ceiling * (0.5 + 0.5 * jitter)


class LoopGuard(msgspec.Struct, frozen=True, kw_only=True):
    """When a loop of model and tools is going nowhere."""

    repeats: int = 5
    """the same calls, or the same short cycle of calls, with the same results so many times in a row; 0: off"""


class RunPolicy(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a supervisor treats one session."""

    retries: int | None = None
    """deaths in a row without progress that are survived; None: as many as its kind of program allows"""
    approve: tuple[str, ...] = ()
    """patterns of tool calls that wait for a person"""
    budget: float | None = None
    """most it may cost, in the currency usage is counted in, all attempts together"""
    budget_tokens: int | None = None
    """most tokens its replies may read and write, from the cache or not, all attempts together"""
    seconds: float | None = None
    """most time it may work, all attempts together"""
    library: bool = False
    """its program opens its session with this library, and so reports what its replies cost"""
    quiet_seconds: float = 1800.0
    """without any sign of progress for so long, a coding agent is taken to hang, and is started again"""
    same_failures: int = 3
    """the same failure so often without progress: a person has to look"""
    repeats: int = 12
    """the same calls with the same results so often in a row: it is halted; 0 switches it off"""
    network: bool = True
    """may it reach the network, where its runtime can forbid it?"""

    @property
    def counts_usage(self) -> bool:
        """Has it a limit that only reported usage can tell is reached?"""
        return self.budget is not None or self.budget_tokens is not None


class Allowance(msgspec.Struct, frozen=True, kw_only=True):
    """Limits that are given with a start; what is None stays as it was."""

    budget: float | None = None
    budget_tokens: int | None = None
    time_limit: float | None = None

    def on(self, policy: RunPolicy) -> RunPolicy:
        """The policy with these limits."""
        given = {"budget": self.budget, "budget_tokens": self.budget_tokens, "seconds": self.time_limit}
        known = {name: value for name, value in given.items() if value is not None}
        return msgspec.structs.replace(policy, **known) if known else policy

    def flags(self) -> list[str]:
        """As a command line says it."""
        given = {"--budget": self.budget, "--budget-tokens": self.budget_tokens, "--time-limit": self.time_limit}
        return [word for flag, value in given.items() if value is not None for word in (flag, repr(value))]


NO_ALLOWANCE: Final = Allowance()


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds on what one step may hold; a store may have smaller ones."""

    message_bytes: int = 64 * 1024 * 1024
    step_bytes: int = 256 * 1024 * 1024
    depth: int = 200


LIMITS: Final = Limits()
