"""Sessions that stopped alike: which of them may be started again together, and what they have in common. Pure."""

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
_ONE_OF_THEM: Final = re.compile(r"\s*\([^)]*\)|[:;].*|\d+")
"""what a reason says of a single session: who, when, how often"""


class Alike(msgspec.Struct, frozen=True, kw_only=True):
    """Sessions that stopped for the same reason."""

    cause: str
    sessions: list[SessionInfo]


def comes_back(info: SessionInfo) -> bool:
    """Was it running when it died, or does it wait for its time? What a person stopped does not come back by itself,
    nor what has a verdict; who stands in a queue is a worker's."""
    if info.command is None:
        return False
    if info.status == "terminated":
        return not stopped_by_a_person(info)
    return info.status == "queued" and bool(info.attempt) and not info.queue


def stopped_by_a_person(info: SessionInfo) -> bool:
    """Ctrl-C, `relight stop`, leaving. A reboot sends SIGTERM, and what it ended comes back."""
    return (info.reason or "").startswith(("stopped by", "stopped (SIGINT)", "left", "interrupted", "adopted"))


def cause_of(info: SessionInfo) -> str:
    """Why it stopped, in words that fit every session that stopped so."""
    if info.failure is not None and info.failure.kind in _KINDS:
        return _KINDS[info.failure.kind]
    return _ONE_OF_THEM.sub("", headline(info.reason)).strip() or info.status


def alike(infos: Iterable[SessionInfo]) -> list[Alike]:
    """Those that can be started again, by what stopped them; the largest group first, none of a single session."""
    groups: dict[str, list[SessionInfo]] = {}
    for info in infos:
        if comes_back(info) or (info.status == "failed" and info.command is not None):
            groups.setdefault(cause_of(info), []).append(info)
    found = [Alike(cause=cause, sessions=group) for cause, group in groups.items() if len(group) > 1]
    return sorted(found, key=lambda one: (-len(one.sessions), one.cause))
