"""Policies: numbers that users may set, with their defaults."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from relight.errors import UsageError
from relight.values.status import FINISHED, Status

DAY: Final = 86_400.0
MAX_TURNS: Final = 200
"""replies to one prompt, over all attempts"""
PARALLEL: Final = 8
"""calls of one reply that run at a time, unless the program says otherwise"""


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """What a sweep may remove. By default never an unfinished session, that is, one that could still be resumed."""

    finished_days: float = 7.0
    """days after its end that a session may be removed"""
    statuses: frozenset[Status] = FINISHED
    """which sessions count as finished"""
    max_sessions: int = 1000
    """sessions that one sweep removes at most; the next one continues"""
    grace_seconds: float = 3600.0
    """how long captured files that no step names yet are kept after they were written"""


class StoredPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """The retention policy stored in a store, for every process that uses it."""

    finished_days: float | None
    """days after its end that a finished session is removed; None: explicitly never"""
    set_us: int
    set_by: str
    """a user on a host, the name of a token, or the setting RELIGHT_RETENTION"""


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """The effective retention policy of this process on this store."""

    finished_days: float | None
    """None: nothing is removed"""
    set_by: str
    """empty: none is set"""
    set_us: int | None = None

    @property
    def is_set(self) -> bool:
        """Whether a policy was set, even one that removes nothing."""
        return bool(self.set_by)


class Retry(msgspec.Struct, frozen=True, kw_only=True):
    """How often and with which delays something transient is retried."""

    attempts: int = 6
    first_seconds: float = 1.0
    max_seconds: float = 60.0
    max_retry_after_seconds: float = 600.0
    """longest wait that a provider may ask for (`retry-after`); if it asks for more, the error is raised at once"""
    on: Callable[[Exception], bool | float | None] | None = None
    """decides about an error of a model call: True retries it, False raises it, a number of seconds is the pause before
    the retry, None leaves it to relight"""

    def __post_init__(self) -> None:
        if type(self.attempts) is not int or self.attempts < 1:
            raise UsageError(f"Retry(attempts=) is the number of calls in all, 1 or more, not {self.attempts!r}")
        for name in ("first_seconds", "max_seconds", "max_retry_after_seconds"):
            if not isinstance(given := getattr(self, name), int | float) or not given >= 0:
                raise UsageError(f"Retry({name}=) is a number of seconds from 0, not {given!r}")

    def delay_seconds(self, failures: int, jitter: float) -> float:
        """Delay before the next try after `failures` failures; `jitter` in [0, 1) spreads many clients."""
        ceiling = min(self.max_seconds, self.first_seconds * 2.0 ** min(failures - 1, 30))
        # Half fixed, half random: enough to spread many clients, without retrying almost at once as full jitter may.
        return ceiling * (0.5 + 0.5 * jitter)


class LoopGuard(msgspec.Struct, frozen=True, kw_only=True):
    """When a loop of model and tools makes no progress."""

    repeats: int = 5
    """halt after the same calls, or short cycle of calls, with equal results so many times in a row; 0: off"""

    def __post_init__(self) -> None:
        if type(self.repeats) is not int or self.repeats < 0:
            raise UsageError(f"LoopGuard(repeats=) is a number of times, 0 for off, not {self.repeats!r}")


class RunPolicy(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a supervisor treats one session."""

    retries: int | None = None
    """deaths in a row without progress that are retried; None: the default of its kind of program"""
    approve: tuple[str, ...] = ()
    """patterns of tool calls that wait for a person"""
    approve_within: float | None = None
    """seconds after which an approval that was not given, or given and not used, counts as denied; None: a week"""
    budget: float | None = None
    """maximum cost of all attempts, in the currency of usage"""
    budget_tokens: int | None = None
    """maximum tokens read and written in all attempts, cached or not"""
    seconds: float | None = None
    """maximum working time of all attempts"""
    library: bool = False
    """its program uses this library, and so reports the usage of its replies"""
    quiet_seconds: float = 1800.0
    """a coding agent without any sign of progress for so long is considered hung, and restarted"""
    same_failures: int = 3
    """the same failure so often without progress needs a person"""
    repeats: int = 12
    """the same calls with equal results so often in a row halt it; 0 switches this off"""
    network: bool = True
    """whether it may use the network, if its runtime can forbid it"""
    fallback: tuple[str, ...] = ()
    """coding agents that continue, in this order, after a usage limit, an overloaded provider or a refused key"""
    returns: bool = False
    """with `fallback`: the first start after its limit is over is in the agent that it was begun with"""
    windows: int | None = None
    """usage limits that it may reach, of all its agents together; then it is halted"""
    quiet_hours: str | None = None
    """`22:00-07:00`: local time in which it does not run; what runs then is stopped, and continues afterwards"""

    @property
    def counts_usage(self) -> bool:
        """Whether it has a limit that depends on reported usage."""
        return self.budget is not None or self.budget_tokens is not None


class Allowance(msgspec.Struct, frozen=True, kw_only=True):
    """Limits given with a start; None leaves a limit as it is."""

    budget: float | None = None
    budget_tokens: int | None = None
    time_limit: float | None = None

    def on(self, policy: RunPolicy) -> RunPolicy:
        """The policy with these limits."""
        given = {"budget": self.budget, "budget_tokens": self.budget_tokens, "seconds": self.time_limit}
        known = {name: value for name, value in given.items() if value is not None}
        return msgspec.structs.replace(policy, **known) if known else policy

    def flags(self) -> list[str]:
        """The limits as command-line flags."""
        given = {"--budget": self.budget, "--budget-tokens": self.budget_tokens, "--time-limit": self.time_limit}
        return [word for flag, value in given.items() if value is not None for word in (flag, repr(value))]


NO_ALLOWANCE: Final = Allowance()


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds on one step; a store may have smaller ones."""

    message_bytes: int = 64 * 1024 * 1024
    step_bytes: int = 256 * 1024 * 1024
    depth: int = 200


LIMITS: Final = Limits()
