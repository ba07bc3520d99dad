"""For operators: leases, workers, queues, pause, sweep, retention, `/api/upkeep` (the daily verification and restore
drill) and `/api/adoptable` (native sessions that relight does not manage yet).
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.responses import Response

from relight.errors import NotFound, UsageError
from relight.history.documents import retention_document, session_document
from relight.journal.retention import retention_days
from relight.library.facade import Relight
from relight.server.actions import ActionResult
from relight.server.api.session_writing import Why
from relight.server.api.sessions import Limit
from relight.server.http.guard import principal_of
from relight.server.http.routes import Body, answer, get, page_document, post
from relight.server.http.schemas import (
    AdoptableDocument,
    LeaseDocument,
    PauseDocument,
    RemovedDocument,
    RetentionDocument,
    SessionDocument,
    UpkeepDocument,
    page_of,
)
from relight.server.service import Served
from relight.values.checkpoint import at
from relight.values.policy import Retention

router = APIRouter()
_MAX_ADOPTABLE: Final = 1000
"""native sessions that are searched for the one to adopt"""
_TAG = "operations"
Days = Annotated[
    float | None,
    Query(ge=0, le=36_500, description="Days to keep finished sessions. Default: the store's policy, else 7."),
]


class SweepBody(Why):
    """Which finished sessions to remove."""

    days: Annotated[float, Field(ge=0, le=36_500)] | None = Field(
        default=None, description="days to keep finished sessions; default: the store's policy, else 7"
    )


class RetentionBody(Why):
    """A retention policy to set."""

    retention: Annotated[str, Field(min_length=1, max_length=50)] = Field(
        description="`7d`, `36h`, `2w`, or `off`: nothing is removed automatically", examples=["7d"]
    )


@get(router, "/api/leases", model=page_of(LeaseDocument), tag=_TAG)
def list_leases(request: Request, served: Served, limit: Limit = 100) -> Response:
    """List the leases: which process owns which session, and whether it is alive."""
    held = served.rl.admin.leases(most=limit)
    return answer(request, page_document([msgspec.to_builtins(one) for one in held], None))


@get(router, "/api/workers", model=page_of(dict[str, Any]), tag=_TAG)
def list_workers(request: Request, served: Served) -> Response:
    """List the workers that are registered."""
    return answer(request, page_document([msgspec.to_builtins(one) for one in served.rl.queues.workers()], None))


@get(router, "/api/queues", model=page_of(dict[str, Any]), tag=_TAG)
def list_queues(request: Request, served: Served) -> Response:
    """List the queues with their limits, and the sessions that wait and run in each."""
    return answer(request, page_document([msgspec.to_builtins(one) for one in served.rl.queues.list()], None))


@get(router, "/api/sweep", model=RemovedDocument, tag=_TAG)
def sweep_preview(request: Request, served: Served, days: Days = None) -> Response:
    """Preview a sweep: what it would remove. Nothing is changed."""
    removed = served.rl.admin.sweep(_policy(days), dry_run=True)
    return answer(request, msgspec.to_builtins(removed))


@post(router, "/api/sweep", model=RemovedDocument, scope="admin", tag=_TAG, errors=(409,))
def sweep(request: Request, served: Served, body: SweepBody | None = None) -> Response:
    """Remove sessions that finished longer ago than they are kept. Unfinished sessions are never removed."""
    body = body or SweepBody()
    who = principal_of(request).name

    def do(rl: Relight) -> ActionResult:
        removed = rl.admin.sweep(_policy(body.days), by=f"{who} over HTTP")
        return ActionResult(document=msgspec.to_builtins(removed))

    return served.actions.answer(request, "sweep", None, do, asked=body.model_dump(), why=body.why)


@get(router, "/api/pause", model=PauseDocument, tag=_TAG)
def pause_state(request: Request, served: Served) -> Response:
    """Get whether everything is paused."""
    return answer(request, {"pause": msgspec.to_builtins(served.rl.admin.paused()), "ended": [], "running": []})


@post(router, "/api/pause", model=PauseDocument, tag=_TAG, errors=(409,))
def pause(request: Request, served: Served, body: Why | None = None) -> Response:
    """Pause everything: end what runs under supervision or under a worker, and start nothing until the pause is ended.
    `why` is shown wherever a start is refused."""
    body = body or Why()
    who = principal_of(request).name

    def do(rl: Relight) -> ActionResult:
        return ActionResult(document=msgspec.to_builtins(rl.admin.pause(by=f"{who} over HTTP", reason=body.why)))

    return served.actions.answer(request, "pause", None, do, asked=body.model_dump(), why=body.why)


@post(router, "/api/unpause", model=PauseDocument, tag=_TAG, errors=(409,))
def unpause(request: Request, served: Served, body: Why | None = None) -> Response:
    """End the pause. Workers claim sessions again; other sessions are resumed one by one."""
    body = body or Why()

    def do(rl: Relight) -> ActionResult:
        rl.admin.unpause()
        return ActionResult(document={"pause": None, "ended": [], "running": []})

    return served.actions.answer(request, "unpause", None, do, asked=body.model_dump(), why=body.why)


@get(router, "/api/retention", model=RetentionDocument, tag=_TAG)
def retention(request: Request, served: Served) -> Response:
    """Get the store's retention policy. Without one nothing is removed automatically."""
    return answer(request, retention_document(served.rl.admin.retention(), served.rl.admin.last_sweep_us()))


@post(router, "/api/retention", model=RetentionDocument, scope="admin", tag=_TAG, errors=(409,))
def set_retention(request: Request, served: Served, body: RetentionBody) -> Response:
    """Set the retention policy for every process that uses the store. Sessions are removed by the daily sweep, not by
    this request."""
    who = principal_of(request).name

    def do(rl: Relight) -> ActionResult:
        try:
            days = retention_days(body.retention)
        except ValueError as error:
            raise UsageError(str(error)) from None
        policy = rl.admin.set_retention(days, by=f"{who} over HTTP")
        return ActionResult(document=retention_document(policy, rl.admin.last_sweep_us()))

    return served.actions.answer(request, "retention", None, do, asked=body.model_dump(), why=body.why)


def _policy(days: float | None) -> Retention | None:
    return Retention(finished_days=days) if days is not None else None


@get(router, "/api/upkeep", model=UpkeepDocument, tag="operations")
def upkeep(request: Request, served: Served) -> Response:
    """Get the newest verification, restore drill and growth of the store; each is made once a day."""
    found = served.upkeep
    document = {"verified": _dated(found.verified), "drilled": _dated(found.drilled), "growth": found.growth}
    return answer(request, msgspec.to_builtins(document))


def _dated(found: msgspec.Struct | None) -> dict[str, Any] | None:
    if found is None:
        return None
    built = msgspec.to_builtins(found)
    return {"at": at(built.pop("at_us")), **built}


class AdoptBody(Body):
    """The native session to take over, as `GET /api/adoptable` lists it."""

    native: Annotated[str, Field(max_length=200)]
    name: Annotated[str, Field(max_length=100)] | None = None


@post(router, "/api/adopt", model=SessionDocument, scope="admin", status=201)
def adopt(request: Request, served: Served, body: AdoptBody) -> Response:
    """Take over a coding agent's own session that was begun on this machine without relight. Its file stays."""

    def do(rl: Relight) -> ActionResult:
        found = next((one for one in rl.runs.adoptable(most=_MAX_ADOPTABLE) if one.native == body.native), None)
        if found is None:
            raise NotFound(body.native[:100], what="native session to adopt")
        made = rl.runs.adopt(found.native, directory=found.directory, name=body.name)
        return ActionResult(
            document=session_document(made), status=201, session=made.id, undo=f"relight rm {made.title}"
        )

    return served.actions.answer(request, "adopt", None, do, asked=body.model_dump())


@get(router, "/api/adoptable", model=page_of(AdoptableDocument))
def list_adoptable(request: Request, served: Served, limit: Limit = 50) -> Response:
    """List the native sessions that `relight adopt` could take over, newest first. Their files are only read."""
    return answer(
        request, page_document([msgspec.to_builtins(one) for one in served.rl.runs.adoptable(most=limit)], None)
    )
