"""`/api/stats`: failures by class and day, cost by day, verdicts of resumes and what they saved."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import timedelta
from itertools import islice
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from relight.errors import Corrupt
from relight.server.http.routes import answer, get
from relight.server.resume_stats import Resumed
from relight.server.service import Served, Service
from relight.values.checkpoint import at

router = APIRouter()
_MAX_SESSIONS: Final = 2000
_MAX_RESUMED: Final = 200


class FailurePoint(BaseModel):
    """Number of sessions that failed on a day, by class of failure."""

    day: str = Field(examples=["2026-11-15"])
    failure: str
    count: int


class BurnPoint(BaseModel):
    """Total cost and tokens of the sessions whose last step was on a day."""

    day: str
    cost: float
    tokens: int


class StatsDocument(BaseModel):
    """Statistics of the sessions created in the last `days`; `looked_at` is their number."""

    days: float
    looked_at: int
    complete: bool = Field(description="false: there are more sessions than were read")
    failures: list[FailurePoint]
    burn: list[BurnPoint]
    resumes: int
    verdicts: dict[str, int]
    rungs: dict[str, int]
    tokens_saved: int
    minutes_saved: float
    waiting: int
    in_doubt: int


@get(router, "/api/stats", model=StatsDocument, tag="operations")
def stats(
    request: Request, served: Served, days: Annotated[float, Query(gt=0, le=366, description="How far back.")] = 7.0
) -> Response:
    """Get statistics of recent sessions, as the operations page shows them."""
    return answer(request, statistics(served, days))


def statistics(served: Service, days: float) -> dict[str, Any]:
    """The statistics as JSON."""
    return statistics_and_resumes(served, days)[0]


def statistics_and_resumes(served: Service, days: float) -> tuple[dict[str, Any], list[Resumed]]:
    """The same, with the resumes that are counted in it, for the operations page."""
    since = at(served.clock.now_us()) - timedelta(days=days)
    found = served.rl.sessions.list(since_us=round(since.timestamp() * 1e6), limit=_MAX_SESSIONS + 1)
    infos = list(islice(found, _MAX_SESSIONS + 1))
    counted = infos[:_MAX_SESSIONS]
    failures: Counter[tuple[str, str]] = Counter()
    burn: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for info in counted:
        day = info.updated_at.date().isoformat()
        if info.failure is not None:
            failures[day, info.failure.kind] += 1
        burn[day][0] += info.cost or 0.0
        burn[day][1] += info.usage.input_tokens + info.usage.output_tokens
    resumes: list[Resumed] = []
    for info in [one for one in counted if one.attempt > 1][:_MAX_RESUMED]:
        try:
            resumes += served.resume_stats.of(info)
        except Corrupt:
            continue  # a damaged session must not hide the others; `relight verify` reports it
    document = {
        "days": days,
        "looked_at": len(counted),
        "complete": len(infos) <= _MAX_SESSIONS,
        "failures": [{"day": day, "failure": kind, "count": n} for (day, kind), n in sorted(failures.items())],
        "burn": [{"day": day, "cost": round(one[0], 6), "tokens": int(one[1])} for day, one in sorted(burn.items())],
        "resumes": len(resumes),
        "verdicts": dict(Counter(one.verdict for one in resumes)),
        "rungs": dict(Counter(one.rung for one in resumes)),
        "tokens_saved": sum(one.tokens_saved for one in resumes),
        "minutes_saved": round(sum(one.seconds_saved for one in resumes) / 60, 1),
        "waiting": served.rl.sessions.counts().get("waiting", 0),
        "in_doubt": sum(info.in_doubt for info in counted),
    }
    return document, resumes
