"""`/api/leases`, `/api/workers`, `/api/sweep`: what an operator looks at, and the one thing to run by hand."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.responses import Response

from relight.engine.library import Relight
from relight.model.policy import Retention
from relight.server.acting import Done
from relight.server.api.session_writing import Why
from relight.server.api.sessions import Limit
from relight.server.routes import answer, get, page_document, post
from relight.server.schemas import LeaseDocument, Page, RemovedDocument
from relight.server.service import Served

router = APIRouter()
_TAG = "operations"
Days = Annotated[float, Query(ge=0, le=36_500, description="Finished sessions are kept so long.")]


class SweepBody(Why):
    """What is over."""

    days: Annotated[float, Field(ge=0, le=36_500)] = 7.0


@get(router, "/api/leases", model=Page[LeaseDocument], tag=_TAG)
def list_leases(request: Request, served: Served, limit: Limit = 100) -> Response:
    """Who owns which session, and whether that process is still there."""
    held = served.rl.leases(most=limit)
    return answer(request, page_document([msgspec.to_builtins(one) for one in held], None))


@get(router, "/api/workers", model=Page[dict[str, Any]], tag=_TAG)
def list_workers(request: Request, served: Served) -> Response:
    """The workers of the fleet that have shown themselves."""
    return answer(request, page_document([msgspec.to_builtins(one) for one in served.rl.workers()], None))


@get(router, "/api/queues", model=Page[dict[str, Any]], tag=_TAG)
def list_queues(request: Request, served: Served) -> Response:
    """The lines that sessions stand in: what each allows, who stands and who runs."""
    return answer(request, page_document([msgspec.to_builtins(one) for one in served.rl.queues()], None))


@get(router, "/api/sweep", model=RemovedDocument, tag=_TAG)
def sweep_preview(request: Request, served: Served, days: Days = 7.0) -> Response:
    """What a sweep would remove; nothing is."""
    removed = served.rl.sweep(Retention(finished_days=days), dry_run=True)
    return answer(request, msgspec.to_builtins(removed))


@post(router, "/api/sweep", model=RemovedDocument, scope="admin", tag=_TAG, errors=(409,))
def sweep(request: Request, served: Served, body: SweepBody | None = None) -> Response:
    """Remove what finished longer ago than it is kept. Unfinished sessions never go."""
    body = body or SweepBody()

    def do(rl: Relight) -> Done:
        removed = rl.sweep(Retention(finished_days=body.days))
        return Done(document=msgspec.to_builtins(removed))

    return served.acting.answer(request, "sweep", None, do, asked=body.model_dump(), why=body.why)
