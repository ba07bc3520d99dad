"""`/api/costs`: cost by day, model, agent, label and tool; numbers per tool; provider limits; queues with workers."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from relight.server.http.routes import answer, get
from relight.server.limits_and_queues import limits_of, queues_of
from relight.server.service import Served, Service
from relight.server.usage_totals import totals_document
from relight.values.checkpoint import at

router = APIRouter()
READ_SECONDS: Final = 0.4
"""how long one request reads steps that were not counted yet"""


class SpentDocument(BaseModel):
    """A sum of replies; `unpriced` of them have no known cost and are not in it."""

    name: str
    cost: float
    tokens: int
    replies: int
    unpriced: int


class ToolDocument(BaseModel):
    """The calls of one tool. `p50`, `p95` in seconds, at most 15 % too high; `cost` is an estimate."""

    name: str
    calls: int
    errors: int
    unknown: int
    error_rate: float | None
    p50: float | None
    p95: float | None
    cost: float


class LimitDocument(BaseModel):
    """A usage limit of a provider that queued sessions wait for."""

    provider: str
    model: str | None
    until: str
    sessions: int


class QueueDocument(BaseModel):
    """A queue with its load, and the living workers that serve it."""

    name: str
    queued: int
    running: int
    workers: list[str]


class CostsDocument(BaseModel):
    """Totals of the sessions created in the last `days`."""

    days: int
    sessions: int
    complete: bool = Field(description="false: there are more sessions than were counted")
    steps_left: int = Field(description="steps that are not counted yet; ask again")
    total: SpentDocument
    by_day: list[SpentDocument]
    by_model: list[SpentDocument]
    by_agent: list[SpentDocument]
    by_label: list[SpentDocument]
    tools: list[ToolDocument]
    limits: list[LimitDocument]
    queues: list[QueueDocument]


@get(router, "/api/costs", model=CostsDocument, tag="operations")
def costs(
    request: Request, served: Served, days: Annotated[int, Query(ge=1, le=366, description="How far back.")] = 30
) -> Response:
    """Get what sessions cost, by day, model, agent, label and tool, and how tools, limits and queues are."""
    return answer(request, costs_document(served, days))


def costs_document(served: Service, days: int) -> dict[str, Any]:
    """The same as JSON, also for the page."""
    now = at(served.clock.now_us())
    totals = served.usage_totals.of(now, days=days, seconds=READ_SECONDS)
    limits = [{**one, "until": one["until"].isoformat()} for one in limits_of(served.rl, now)]
    return totals_document(totals) | {"limits": limits, "queues": queues_of(served.rl)}
