"""One end of an agent: what was observed of it (`Ending`), and what that means (`Verdict`).

An ending is gathered at the edge and may hold any JSON at all: agents change their output from one version to the
next. A verdict is what relight acts on: the class of the failure, when to try again, and who has to act.

The class `ok` is a verdict too. A verdict decides about one ending only: how often it may happen again, and how long
the next backoff is, is the supervisor's to count.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final, Literal, get_args

import msgspec

FailureClass = Literal[
    "ok",
    "usage_limit",
    "rate_limit",
    "overloaded",
    "server_error",
    "auth",
    "billing",
    "context",
    "max_turns",
    "max_budget",
    "network",
    "model_not_found",
    "refused",
    "output_limit",
    "interrupted",
    "terminated",
    "killed",
    "oom",
    "crashed",
    "paused",
    "unknown",
]
FAILURE_CLASSES: Final[tuple[FailureClass, ...]] = get_args(FailureClass)

Cure = Literal["none", "wait_until", "backoff", "resume", "resume_once", "ask", "stop"]
"""wait_until: sleep to `wake_us`; backoff: try again by `Backoff`; resume: at once; resume_once: at once, but a second
such ending in a row asks; ask: a person has to act first; stop: somebody wanted the end, or trying again is wrong"""

Source = Literal["own_signal", "result", "transcript", "text", "exit", "none"]
"""where the class was read, in the order of trust; none: nowhere, the class is a guess"""

ResetSource = Literal["field", "text"]

LEAST_WAIT_SECONDS: Final = 60
MAX_WAIT_SECONDS: Final = 8 * 24 * 3600


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """Everything observed about one end of an agent. Lines are the agent's own dicts, oldest first, of this attempt."""

    agent: str = "command"
    """claude, codex, gemini, opencode, or anything else"""
    exit_code: int | None = None
    """as the operating system gave it: negative is a signal, 128 + n a signal seen through a shell"""
    signal: int | None = None
    """the signal that ended it, where that is known apart from the exit code"""
    own_signal: int | None = None
    """the signal relight itself sent, if it did"""
    lines: tuple[Any, ...] = ()
    """structured output: stream-json lines, `codex exec --json` lines, an SDK error as a dict"""
    transcript: tuple[Any, ...] = ()
    """the tail of the native transcript or rollout"""
    stdout: str = ""
    """the tail of what it printed, where that is not structured"""
    stderr: str = ""
    oom_kills: int = 0
    """by how much the cgroup's oom_kill counter rose during the attempt"""
    now_us: int
    """microseconds since 1970, when the end was seen"""
    timezone: str = "UTC"
    """the agent's TZ: it prints local times"""
    account: str | None = None
    """a name for the credential in use, never the credential"""
    provider: str | None = None
    """where the agent's name does not say it"""
    least_wait_seconds: float = LEAST_WAIT_SECONDS
    """how long a limit is waited for at least, and beyond its reset; less than a minute is for tests"""


class Backoff(msgspec.Struct, frozen=True, kw_only=True):
    """Exponential with full jitter, which the supervisor draws."""

    first_seconds: int
    most_seconds: int
    tries: int | None = None
    """None: as long as it takes"""


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """Whom a cooldown concerns: every run of this provider, account and model, not this run alone."""

    provider: str
    account: str | None = None
    model: str | None = None
    """the model family a limit is about; None: all of them"""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What one ending means and what to do about it."""

    kind: FailureClass = msgspec.field(name="class")
    source: Source
    scope: Scope
    text: str = ""
    """what the failing side said, cut to a line"""
    reset_us: int | None = None
    """when the limit ends, as the provider said it; may lie in the past"""
    reset_source: ResetSource | None = None
    """field: exact; text: read from a sentence, to the minute"""
    wake_us: int | None = None
    """when to try again, with a margin, never sooner than a minute nor later than 8 days from now"""
    cure: Cure
    then: Cure = "ask"
    """when the cure is used up: its tries, or its once"""
    backoff: Backoff | None = None
    prompt: str | None = None
    """what to tell the agent on resume, where a plain continuation is not the cure"""
    transient: bool = False
    """the same request may well succeed within minutes, and nobody has to do anything"""
    counts: bool = True
    """does trying again use up the attempts? Not while the network is down or a known reset is awaited"""
    fields: dict[str, str | int | float | bool | None] = {}
    """whatever else was read: status, code, exit_code, signal, retry_after_seconds, limit, blind_retries"""

    @property
    def reset_at(self) -> datetime | None:
        """The reset as an aware time."""
        return None if self.reset_us is None else datetime.fromtimestamp(self.reset_us / 1e6, UTC)

    @property
    def wake_at(self) -> datetime | None:
        """The wake-up as an aware time."""
        return None if self.wake_us is None else datetime.fromtimestamp(self.wake_us / 1e6, UTC)
