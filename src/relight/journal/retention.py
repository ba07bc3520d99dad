"""What a sweep may remove. Pure: from ended sessions and a policy to a list, oldest end first.

Only finished sessions go, and only when their time is over; a session that a kept fork reads from stays, whatever its
age. One that could still be resumed is unfinished, and goes only where a policy says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from relight.model.policy import DAY, Retention
from relight.model.session import Head, Identity


def due(
    ended: Sequence[tuple[Identity, Head]], forks: Mapping[str, Sequence[str]], policy: Retention, *, now_us: int
) -> list[Identity]:
    """The sessions to remove now, at most `policy.max_sessions`. `forks` maps a session to its direct forks."""
    limit_us = now_us - round(policy.finished_days * DAY * 1e6)
    over = [(head.ended_us or 0, identity) for identity, head in ended if _is_over(head, policy, limit_us)]
    over.sort(key=lambda pair: (pair[0], pair[1].id))
    going = {identity.id: identity for _, identity in over[: policy.max_sessions]}
    while needed := [one for one in going if any(fork not in going for fork in forks.get(one, ()))]:
        for one in needed:
            del going[one]
    return list(going.values())


def _is_over(head: Head, policy: Retention, limit_us: int) -> bool:
    return head.status in policy.statuses and head.ended_us is not None and head.ended_us <= limit_us
