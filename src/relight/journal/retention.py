"""What a sweep may remove: from ended sessions and a policy to a list, oldest end first.

Only finished sessions whose retention is over are removed; one that a retained fork reads from stays, whatever its age,
and a parent and its children go together: a parent that is resumed must find what its children did. One that could
still be resumed is unfinished, and is removed only if the policy says so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from relight.values.policy import DAY, Retention
from relight.values.session import Head, Identity


def due(
    ended: Sequence[tuple[Identity, Head]], related: Mapping[str, Sequence[str]], policy: Retention, *, now_us: int
) -> list[Identity]:
    """The sessions to remove now: about `policy.max_sessions`, and never part of a family. `related` maps a session to
    those that must go with it: its direct forks, its children, its parent."""
    limit_us = ended_by_us(policy, now_us)
    over = [(head.ended_us or 0, identity) for identity, head in ended if _is_over(head, policy, limit_us)]
    over.sort(key=lambda pair: (pair[0], pair[1].id))
    going = {identity.id: identity for _, identity in over}
    while needed := [one for one in going if any(other not in going for other in related.get(one, ()))]:
        for one in needed:
            del going[one]
    chosen: dict[str, Identity] = {}
    for oldest in going:
        with_it = [oldest]
        while with_it:
            if (one := with_it.pop()) not in chosen:
                chosen[one] = going[one]
                with_it += related.get(one, ())
        if len(chosen) >= policy.max_sessions:
            break
    return list(chosen.values())


def ended_by_us(policy: Retention, now_us: int) -> int:
    """What ended by then may be removed; a time before any other where sessions are kept for longer than that."""
    return int(max(-1.0, now_us - policy.finished_days * DAY * 1e6))


def _is_over(head: Head, policy: Retention, limit_us: int) -> bool:
    return head.status in policy.statuses and head.ended_us is not None and head.ended_us <= limit_us


_AGE: Final = r"(\d{1,6}(?:\.\d{1,6})?)\s*(m|h|d|w)?"
_UNIT_DAYS: Final = {"m": 1 / 1440, "h": 1 / 24, "d": 1.0, "w": 7.0}


def retention_days(text: str) -> float | None:
    """Parse `7d`, `36h`, `2w`, or days; `off` is None. ValueError for anything else."""
    given = text.strip().lower()
    if given in ("off", "none", "never"):
        return None
    found = re.fullmatch(_AGE, given)
    if found is None:
        raise ValueError(f"not a retention: {text[:50]!r}; write 7d, 36h, 2w or off")
    return float(found[1]) * _UNIT_DAYS[found[2] or "d"]


def days_text(days: float | None) -> str:
    """The inverse of `retention_days`."""
    if days is None:
        return "off"
    return f"{days:g}d" if days >= 1 or days == 0 else f"{days * 24:g}h"


def is_due(last_us: int | None, now_us: int) -> bool:
    """Whether a sweep may begin: once a day. A last sweep in the future, from a wrong clock, does not block it for
    ever."""
    return last_us is None or not 0 <= now_us - last_us < DAY * 1e6
