"""`/api/sessions/{ref}/...`: everything one can look at. Reading writes nothing and starts nothing."""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from relight.errors import Corrupt
from relight.history.documents import call_document, checkpoint_document, plan_document, session_document
from relight.library.facade import Relight
from relight.server.http.guard import needs
from relight.server.http.routes import Cursor, Ref, answer, from_cursor, get, page_document, to_cursor
from relight.server.http.schemas import (
    BranchDocument,
    CallDocument,
    CheckpointDocument,
    EventDocument,
    FileDocument,
    HitsPage,
    Page,
    PlanDocument,
)
from relight.server.live.streams import event_document
from relight.server.service import Served
from relight.values.pending import Wanted

router = APIRouter()
Limit = Annotated[int, Query(ge=1, le=500, description="Items a page.")]
_NONE = (404, 409)


def wanted_of(
    request: Request,
    restore: Annotated[bool, Query(description="As in the body of a resume, and so are the others.")] = False,
    without_secrets: bool = False,
    in_place: bool = False,
    workspace: Annotated[str | None, Query(max_length=4000, description="Needs the scope operate.")] = None,
    name: Annotated[str | None, Query(max_length=100)] = None,
) -> Wanted:
    """How a resume would be asked for. Whoever only reads does not learn here what lies where on the machine."""
    if workspace is not None:
        needs("operate")(request)
    return Wanted(restore=restore, without_secrets=without_secrets, in_place=in_place, workspace=workspace, name=name)


Planned = Annotated[Wanted, Depends(wanted_of)]


@get(router, "/api/sessions/{ref}/can-resume", model=PlanDocument, errors=_NONE)
def can_resume(request: Request, served: Served, ref: Ref, wanted: Planned, disk: bool = True) -> Response:
    """What a resume would do, and what stands against it. `disk=false` does not compare the files with the disk."""
    return answer(request, whole_plan(served.rl, ref, wanted, disk=disk))


def whole_plan(rl: Relight, ref: str, wanted: Wanted, *, disk: bool) -> dict[str, Any]:
    """The plan with what it cannot undo and what it would end."""
    plan = rl.can_resume(ref, disk=disk, wanted=wanted)
    seq = int(plan.checkpoint.rpartition("@")[2]) if "@" in plan.checkpoint else 0
    effects = rl.effects_since(plan.session, seq)
    since = [call_document(one) for one in effects] if effects is not None else None
    calls = {f"{after}_calls": _planned(rl, ref, after) for after in ("rewind", "fork")}
    return {**plan_document(plan), **calls, "effects_since": since}


def _planned(rl: Relight, ref: str, after: Literal["rewind", "fork"]) -> list[dict[str, Any]] | None:
    try:
        return [msgspec.to_builtins(one) for one in rl.planned_calls(ref, after=after)]
    except Corrupt:
        return None


@get(router, "/api/sessions/{ref}/checkpoints", model=Page[CheckpointDocument], errors=_NONE)
def list_checkpoints(request: Request, served: Served, ref: Ref, limit: Limit = 100, cursor: Cursor = None) -> Response:
    """Its checkpoints, oldest first; a fork's ancestors included."""
    after = from_cursor(cursor, int)[0] if cursor is not None else 0
    rows = served.rl.checkpoints_between(ref, after=after, upto=after + limit)
    newest = served.rl.get(ref).seq
    following = to_cursor(after + limit) if after + limit < newest else None
    return answer(request, page_document([checkpoint_document(row) for row in rows], following))


@get(router, "/api/sessions/{ref}/steps", model=Page[EventDocument], errors=_NONE)
def list_steps(
    request: Request,
    served: Served,
    ref: Ref,
    limit: Limit = 100,
    after: Annotated[int, Query(ge=0, le=10**15, description="Steps with a greater seq.")] = 0,
    cursor: Cursor = None,
) -> Response:
    """Its steps with all they hold, oldest first: the events, as a page."""
    after = from_cursor(cursor, int)[0] if cursor is not None else after
    events = list(islice(served.rl.steps(ref, after=after), limit + 1))
    following = to_cursor(events[limit - 1].seq) if len(events) > limit else None
    return answer(request, page_document([event_document(event) for event in events[:limit]], following))


@get(router, "/api/sessions/{ref}/messages", model=Page[dict[str, Any]], errors=_NONE)
def list_messages(request: Request, served: Served, ref: Ref, limit: Limit = 100, cursor: Cursor = None) -> Response:
    """The conversation as the model sees it, in the provider's own form. `ref@seq`: as it was then."""
    after = from_cursor(cursor, int)[0] if cursor is not None else 0
    loaded = served.folds.load(ref)
    following = to_cursor(after + limit) if after + limit < len(loaded.messages) else None
    return answer(request, page_document(loaded.messages[max(after, 0) : after + limit], following))


@get(router, "/api/sessions/{ref}/calls", model=Page[CallDocument], errors=_NONE)
def list_calls(request: Request, served: Served, ref: Ref, limit: Limit = 100, cursor: Cursor = None) -> Response:
    """Its tool calls with effect and result, oldest first."""
    after = from_cursor(cursor, int)[0] if cursor is not None else 0
    calls = served.folds.load(ref).calls
    following = to_cursor(after + limit) if after + limit < len(calls) else None
    return answer(
        request, page_document([call_document(one) for one in calls[max(after, 0) : after + limit]], following)
    )


@get(router, "/api/sessions/{ref}/search", model=HitsPage, errors=_NONE)
def search(
    request: Request,
    served: Served,
    ref: Ref,
    q: Annotated[str, Query(min_length=1, max_length=200, description="What was said, whatever its case.")],
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Response:
    """Where a text was said. All hits are counted, a page of them is told."""
    after = from_cursor(cursor, int)[0] if cursor is not None else 0
    found = served.rl.search(ref, q, after=after, most=limit + 1)
    following = to_cursor(found.hits[limit - 1].seq) if len(found.hits) > limit else None
    hits = [msgspec.to_builtins(hit) for hit in found.hits[:limit]]
    return answer(request, page_document(hits, following, count=found.count))


@get(router, "/api/sessions/{ref}/operations", model=Page[dict[str, Any]], errors=_NONE)
def list_operations(request: Request, served: Served, ref: Ref) -> Response:
    """The undo log: rewinds and restores, oldest first."""
    return answer(request, page_document([msgspec.to_builtins(one) for one in served.rl.operations(ref)], None))


@get(router, "/api/sessions/{ref}/files", model=dict[str, Any], errors=_NONE)
def files(request: Request, served: Served, ref: Ref, disk: bool = False, start: bool = False) -> Response:
    """What is known of its files; `disk` compares with the disk now, `start` with the first capture."""
    state = served.rl.files_at(ref, disk=disk, start=start)
    return answer(request, {"files": msgspec.to_builtins(state) if state is not None else None})


@get(router, "/api/sessions/{ref}/diff", model=Page[FileDocument], errors=_NONE)
def session_diff(
    request: Request, served: Served, ref: Ref, to: Annotated[str | None, Query(max_length=250)] = None
) -> Response:
    """How the files differ from `ref` to another checkpoint, or to the disk now."""
    return answer(request, page_document([msgspec.to_builtins(one) for one in served.rl.diff(ref, to)], None))


@get(router, "/api/sessions/{ref}/tree", model=Page[BranchDocument], errors=_NONE)
def tree(request: Request, served: Served, ref: Ref) -> Response:
    """Its family: where it was forked from, and what was forked from it."""
    branches = [
        {"session": session_document(one.session), "forked_at": one.forked_at, "depth": one.depth}
        for one in served.rl.tree(ref)
    ]
    return answer(request, page_document(branches, None))


@get(router, "/api/sessions/{ref}/callbacks", model=Page[dict[str, Any]], errors=_NONE)
def callbacks(request: Request, served: Served, ref: Ref) -> Response:
    """What this server told others about it, the newest first."""
    session = served.rl.get(ref).id
    return answer(request, page_document(served.callbacks.deliveries(session), None))
