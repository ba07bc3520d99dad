"""The end of an agent process: what was observed (`Ending`), and what it means (`Verdict`).

An ending is collected at the edge and may hold any JSON: agents change their output between versions. A verdict is what
relight acts on: the class of the failure, when to retry, and who has to act; `ok` is one too. It is about one ending
only: how often it may recur, and the next backoff, are counted by the supervisor.
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
"""wait_until: sleep to `wake_us`; backoff: retry by `Backoff`; resume: at once; resume_once: at once, but a second such
ending in a row asks; ask: a person has to act first; stop: the end was requested, or a retry is wrong"""

Source = Literal["own_signal", "result", "transcript", "text", "exit", "none"]
"""source of the class, most trusted first; none: the class is a guess"""

ResetSource = Literal["field", "text"]

LEAST_WAIT_SECONDS: Final = 60
MAX_WAIT_SECONDS: Final = 8 * 24 * 3600


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """Everything observed about one end of an agent. Lines are the agent's own dicts of this attempt, oldest first."""

    agent: str = "command"
    """the name of the agent, or anything else"""
    exit_code: int | None = None
    """as the operating system reports it: negative is a signal, 128 + n a signal reported by a shell"""
    signal: int | None = None
    """the signal that ended it, if known besides the exit code"""
    own_signal: int | None = None
    """the signal relight itself sent, if it did"""
    lines: tuple[Any, ...] = ()
    """structured output: stream-json lines, `codex exec --json` lines, an SDK error as a dict"""
    transcript: tuple[Any, ...] = ()
    """the tail of the native transcript or rollout"""
    stdout: str = ""
    """the tail of its unstructured output"""
    stderr: str = ""
    oom_kills: int = 0
    """increase of the cgroup's oom_kill counter during the attempt"""
    now_us: int
    """when the end was observed, in microseconds since 1970"""
    timezone: str = "UTC"
    """the agent's TZ: it prints local times"""
    account: str | None = None
    """a name for the credential in use, never the credential"""
    provider: str | None = None
    """if the agent's name does not imply it"""
    least_wait_seconds: float = LEAST_WAIT_SECONDS
    """minimum wait for a limit, also added to its reset; less than a minute is for tests"""


class Backoff(msgspec.Struct, frozen=True, kw_only=True):
    """Exponential backoff with full jitter, drawn by the supervisor."""

    first_seconds: int
    most_seconds: int
    tries: int | None = None
    """None: unlimited"""


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """What a cooldown applies to: every run of this provider, account and model, not this run alone."""

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
    """the error message, cut to one line"""
    reset_us: int | None = None
    """when the limit ends according to the provider; may be in the past"""
    reset_source: ResetSource | None = None
    """field: exact; text: parsed from a message, to the minute"""
    wake_us: int | None = None
    """when to retry, with a margin; between a minute and 8 days from now"""
    cure: Cure
    then: Cure = "ask"
    """the cure after this one's tries are used up"""
    backoff: Backoff | None = None
    prompt: str | None = None
    """prompt for the resume, if a plain continuation is not enough"""
    transient: bool = False
    """the same request may succeed within minutes, without any action"""
    counts: bool = True
    """whether a retry uses up attempts; not while the network is down or a known reset is awaited"""
    fields: dict[str, str | int | float | bool | None] = {}
    """further details: status, code, exit_code, signal, retry_after_seconds, limit, blind_retries"""

    @property
    def reset_at(self) -> datetime | None:
        """The reset as an aware time."""
        return None if self.reset_us is None else datetime.fromtimestamp(self.reset_us / 1e6, UTC)

    @property
    def wake_at(self) -> datetime | None:
        """The wakeup as an aware time."""
        return None if self.wake_us is None else datetime.fromtimestamp(self.wake_us / 1e6, UTC)
