"""`GET /api/sessions/{ref}/...`: everything that can be read of a session. Reading never writes to the store."""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from relight.errors import Corrupt
from relight.history.documents import call_document, checkpoint_document, plan_document, session_document
from relight.library.facade import Relight
from relight.server.api.sessions import AgentName
from relight.server.http.guard import needs
from relight.server.http.routes import Cursor, Ref, answer, from_cursor, get, page_document, to_cursor
from relight.server.http.schemas import (
    BranchDocument,
    CallDocument,
    CheckpointDocument,
    EventDocument,
    FileDocument,
    HitsPage,
    PlanDocument,
    page_of,
)
from relight.server.live.streams import event_document
from relight.server.service import Served
from relight.sessions.limits import allowance
from relight.values.options import ResumeOptions

router = APIRouter()
Limit = Annotated[int, Query(ge=1, le=500, description="Items per page.")]
_ERRORS = (404, 409)


def options_of(
    request: Request,
    restore: Annotated[bool, Query(description="Like the member of the resume body; so are the others.")] = False,
    without_secrets: bool = False,
    in_place: bool = False,
    workspace: Annotated[str | None, Query(max_length=4000, description="Requires the scope operate.")] = None,
    name: Annotated[str | None, Query(max_length=100)] = None,
    budget: Annotated[float | None, Query(gt=0)] = None,
    budget_tokens: Annotated[int | None, Query(gt=0)] = None,
    time_limit: Annotated[float | None, Query(gt=0)] = None,
    agent: Annotated[AgentName | None, Query(description="The coding agent to hand it over to.")] = None,
) -> ResumeOptions:
    """The options of the resume to be planned."""
    # A plan says whether the directory exists: the scope read must not be enough to probe paths of the machine.
    if workspace is not None:
        needs("operate")(request)
    limits = allowance(budget=budget, budget_tokens=budget_tokens, time_limit=time_limit)
    return ResumeOptions(
        restore=restore,
        without_secrets=without_secrets,
        in_place=in_place,
        workspace=workspace,
        name=name,
        limits=limits,
        agent=agent,
    )


Planned = Annotated[ResumeOptions, Depends(options_of)]


@get(router, "/api/sessions/{ref}/can-resume", model=PlanDocument, errors=_ERRORS)
def can_resume(request: Request, served: Served, ref: Ref, options: Planned, disk: bool = True) -> Response:
    """Plan a resume: what it would do, and what prevents it. `disk=false` skips the comparison with the disk."""
    return answer(request, whole_plan(served.rl, ref, options, disk=disk))


def whole_plan(rl: Relight, ref: str, options: ResumeOptions, *, disk: bool) -> dict[str, Any]:
    """The resume plan, with the effects that no rewind can undo and the planned calls of a rewind and a fork."""
    plan = rl.runs.plan(ref, disk=disk, options=options)
    seq = int(plan.checkpoint.rpartition("@")[2]) if "@" in plan.checkpoint else 0
    effects = rl.history.effects_since(plan.session, seq)
    since = [call_document(one) for one in effects] if effects is not None else None
    calls = {f"{after}_calls": _planned(rl, ref, after) for after in ("rewind", "fork")}
    return {**plan_document(plan), **calls, "effects_since": since}


def _planned(rl: Relight, ref: str, after: Literal["rewind", "fork"]) -> list[dict[str, Any]] | None:
    try:
        return [msgspec.to_builtins(one) for one in rl.history.planned_calls(ref, after=after)]
    except Corrupt:
        return None


def _newest(rl: Relight, ref: str) -> int:
    """The seq of the last step that belongs to a ref: of a checkpoint, its own."""
    return rl.history.checkpoint(ref).seq if "@" in ref else rl.sessions.get(ref).seq


@get(router, "/api/sessions/{ref}/checkpoints", model=page_of(CheckpointDocument), errors=_ERRORS)
def list_checkpoints(request: Request, served: Served, ref: Ref, limit: Limit = 100, cursor: Cursor = None) -> Response:
    """List the checkpoints of a session, oldest first, including those a fork shares with its ancestors."""
    after = from_cursor(cursor, int)[0] if cursor is not None else 0
    rows = served.rl.history.checkpoints(ref, after=after, upto=after + limit)
    newest = _newest(served.rl, ref)
    following = to_cursor(after + limit) if after + limit < newest else None
    return answer(request, page_document([checkpoint_document(row) for row in rows], following, total=newest))


@get(router, "/api/sessions/{ref}/steps", model=page_of(EventDocument), errors=_ERRORS)
def list_steps(
    request: Request,
    served: Served,
    ref: Ref,
    limit: Limit = 100,
    after: Annotated[int, Query(ge=0, le=10**15, description="Steps with a greater seq.")] = 0,
    cursor: Cursor = None,
) -> Response:
    """List the steps of a session with their content, oldest first."""
    after = from_cursor(cursor, int)[0] if cursor is not None else after
    events = list(islice(served.rl.history.events(ref, after=after), limit + 1))
    total = _newest(served.rl, ref)
    following = to_cursor(events[limit - 1].seq) if len(events) > limit else None
    return answer(request, page_document([event_document(event) for event in events[:limit]], following, total=total))


@get(router, "/api/sessions/{ref}/messages", model=page_of(dict[str, Any]), errors=_ERRORS)
def list_messages(request: Request, served: Served, ref: Ref, limit: Limit = 100, cursor: Cursor = None) -> Response:
    """List the messages as the model sees them, in the provider's format. `ref@seq`: as of that step."""
    after = from_cursor(cursor, int)[0] if cursor is not None else 0
    loaded = served.folds.load(ref)
    following = to_cursor(after + limit) if after + limit < len(loaded.messages) else None
    return answer(
        request, page_document(loaded.messages[max(after, 0) : after + limit], following, total=len(loaded.messages))
    )


@get(router, "/api/sessions/{ref}/calls", model=page_of(CallDocument), errors=_ERRORS)
def list_calls(request: Request, served: Served, ref: Ref, limit: Limit = 100, cursor: Cursor = None) -> Response:
    """List the tool calls of a session with effect and result, oldest first."""
    after = from_cursor(cursor, int)[0] if cursor is not None else 0
    calls = served.folds.load(ref).calls
    following = to_cursor(after + limit) if after + limit < len(calls) else None
    shown = [call_document(one) for one in calls[max(after, 0) : after + limit]]
    return answer(request, page_document(shown, following, total=len(calls)))


@get(router, "/api/sessions/{ref}/search", model=HitsPage, errors=_ERRORS)
def search(
    request: Request,
    served: Served,
    ref: Ref,
    q: Annotated[str, Query(min_length=1, max_length=200, description="Text to find; case is ignored.")],
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Response:
    """Search the steps of a session. `count` is the number of all hits, not of this page."""
    after = from_cursor(cursor, int)[0] if cursor is not None else 0
    found = served.rl.history.search(ref, q, after=after, most=limit + 1)
    following = to_cursor(found.hits[limit - 1].seq) if len(found.hits) > limit else None
    hits = [msgspec.to_builtins(hit) for hit in found.hits[:limit]]
    return answer(request, page_document(hits, following, total=found.count, count=found.count))


@get(router, "/api/sessions/{ref}/operations", model=page_of(dict[str, Any]), errors=_ERRORS)
def list_operations(request: Request, served: Served, ref: Ref) -> Response:
    """List the undo log: rewinds and restores, oldest first."""
    return answer(request, page_document([msgspec.to_builtins(one) for one in served.rl.history.operations(ref)], None))


@get(router, "/api/sessions/{ref}/files", model=dict[str, Any], errors=_ERRORS)
def files(request: Request, served: Served, ref: Ref, disk: bool = False, start: bool = False) -> Response:
    """Get the status of a session's files; `disk` compares with the disk, `start` with the first capture."""
    state = served.rl.files.status(ref, disk=disk, start=start)
    return answer(request, {"files": msgspec.to_builtins(state) if state is not None else None})


@get(router, "/api/sessions/{ref}/diff", model=page_of(FileDocument), errors=_ERRORS)
def session_diff(
    request: Request, served: Served, ref: Ref, to: Annotated[str | None, Query(max_length=250)] = None
) -> Response:
    """Compare the files of `ref` with another checkpoint, or with the disk."""
    return answer(request, page_document([msgspec.to_builtins(one) for one in served.rl.files.diff(ref, to)], None))


@get(router, "/api/sessions/{ref}/tree", model=page_of(BranchDocument), errors=_ERRORS)
def tree(request: Request, served: Served, ref: Ref) -> Response:
    """List the whole tree of a session: the first one, and all children and forks below it, with their cost."""
    branches = [
        {"session": session_document(one.session), "forked_at": one.forked_at, "depth": one.depth, "how": one.how}
        for one in served.rl.sessions.tree(ref)
    ]
    return answer(request, page_document(branches, None))


@get(router, "/api/sessions/{ref}/callbacks", model=page_of(dict[str, Any]), errors=_ERRORS)
def callbacks(request: Request, served: Served, ref: Ref) -> Response:
    """List this server's callback deliveries for a session, newest first."""
    session = served.rl.sessions.get(ref).id
    return answer(request, page_document(served.callbacks.deliveries(session), None))
