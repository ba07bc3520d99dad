"""Groups sessions by the failure that stopped them, for resuming them together."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import msgspec

from relight.values.info import SessionInfo
from relight.values.status import headline

_KINDS: Final = {
    "auth": "the provider refused the key",
    "billing": "the provider wants to be paid",
    "rate_limit": "a usage limit",
    "usage_limit": "a usage limit",
    "overloaded": "the provider was overloaded",
    "server_error": "the provider failed",
    "network": "the network failed",
    "killed": "its process was killed",
    "oom": "it ran out of memory",
    "lost": "its process died",
}
_SESSION_SPECIFIC: Final = re.compile(r"\s*\([^)]*\)|[:;].*|\d+")
"""parts of a reason that differ between sessions: owner, time, count"""


class FailureGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Sessions that stopped for the same reason."""

    cause: str
    sessions: list[SessionInfo]


def should_resume(info: SessionInfo) -> bool:
    """Whether it was running when it died, or waits for its wakeup time. Not one that a person stopped or that has a
    verdict, nor a queued one: a worker takes that."""
    if info.command is None:
        return False
    if info.status == "terminated":
        return not stopped_by_a_person(info)
    return info.status == "queued" and bool(info.attempt) and not info.queue


def stopped_by_a_person(info: SessionInfo) -> bool:
    """By Ctrl-C, `relight stop`, or leaving the block. A reboot sends SIGTERM, and what it ended does resume."""
    # By the stored reason: no field says who ended an attempt, and stores written by 0.1.0 have the same texts.
    return (info.reason or "").startswith(("stopped by", "stopped (SIGINT)", "left", "interrupted", "adopted"))


def cause_of(info: SessionInfo) -> str:
    """Why it stopped, in words that fit every session that stopped so."""
    if info.failure is not None and info.failure.kind in _KINDS:
        return _KINDS[info.failure.kind]
    return _SESSION_SPECIFIC.sub("", headline(info.reason)).strip() or info.status


def group_by_failure(infos: Iterable[SessionInfo]) -> list[FailureGroup]:
    """Resumable sessions by what stopped them; the largest group first, without groups of one."""
    groups: dict[str, list[SessionInfo]] = {}
    for info in infos:
        if should_resume(info) or (info.status == "failed" and info.command is not None):
            groups.setdefault(cause_of(info), []).append(info)
    found = [FailureGroup(cause=cause, sessions=group) for cause, group in groups.items() if len(group) > 1]
    return sorted(found, key=lambda one: (-len(one.sessions), one.cause))
