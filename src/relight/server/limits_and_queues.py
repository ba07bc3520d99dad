"""What queued sessions wait for: usage limits of providers, and queues with the workers that serve them."""

from __future__ import annotations

from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from relight.library.facade import Relight

_MAX_QUEUED: Final = 1000
"""newest queued sessions that are searched for limits"""


def limits_of(rl: Relight, now: datetime) -> list[dict[str, Any]]:
    """Usage limits that queued sessions wait for: provider, model, when it ends, and how many sessions wait."""
    found: dict[tuple[str, str | None], dict[str, Any]] = {}
    for info in islice(rl.sessions.list(status="queued"), _MAX_QUEUED):
        limited = info.failure is not None and info.failure.kind == "usage_limit"
        if not limited or info.failure is None or info.wake_at is None or info.wake_at <= now:
            continue
        provider = str(info.failure.fields.get("provider") or info.provider or "unknown provider")
        one = found.setdefault(
            (provider, info.model), {"provider": provider, "model": info.model, "until": info.wake_at, "sessions": 0}
        )
        one["until"] = max(one["until"], info.wake_at)
        one["sessions"] += 1
    return sorted(found.values(), key=lambda one: (one["until"], one["provider"]))


def queues_of(rl: Relight) -> list[dict[str, Any]]:
    """The queues with their load, and the names of the living workers that serve each."""
    alive = [one.worker for one in rl.queues.workers() if one.alive]
    return [
        {
            "name": queue.name,
            "queued": queue.queued,
            "running": queue.running,
            "workers": [worker.name for worker in alive if queue.name in worker.queues],
        }
        for queue in rl.queues.list()
    ]
