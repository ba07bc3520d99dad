"""`/api/checkpoints`: positions to return to. A session's ref without position means its head."""

from __future__ import annotations

import re
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.responses import Response

from relight.errors import NotFound
from relight.history.documents import checkpoint_document
from relight.history.listing import place_of
from relight.library.facade import Relight
from relight.server.actions import ActionResult, version_of
from relight.server.api.session_reading import Planned, list_checkpoints, whole_plan
from relight.server.api.session_writing import ResumeBody, resumed
from relight.server.api.sessions import Limit
from relight.server.http.routes import (
    Body,
    Cursor,
    Ref,
    answer,
    delete,
    from_cursor,
    get,
    page_document,
    post,
    to_cursor,
)
from relight.server.http.schemas import (
    CheckpointDocument,
    FileDocument,
    ForgottenDocument,
    PlanDocument,
    StartedDocument,
    page_of,
)
from relight.server.service import Served

router = APIRouter()
_TAG = "checkpoints"


class LabelBody(Body):
    """The label for a checkpoint."""

    label: Annotated[str, Field(max_length=100, examples=["tests-green"])]


@get(router, "/api/checkpoints", model=page_of(CheckpointDocument), tag=_TAG, errors=(404, 409))
def all_checkpoints(
    request: Request,
    served: Served,
    limit: Limit = 100,
    cursor: Cursor = None,
    session: Annotated[str | None, Query(max_length=250, description="Only of this session, oldest first.")] = None,
) -> Response:
    """List the newest checkpoint of each session, newest session first; or all checkpoints of one session."""
    if session is not None:
        return list_checkpoints(request, served, session, limit, cursor)
    before: Any = from_cursor(cursor, int, str) if cursor is not None else None
    infos = list(served.rl.sessions.list(before=before, limit=limit + 1))
    found = []
    for info in infos[:limit]:
        try:
            found.append(checkpoint_document(served.rl.history.checkpoint(info.id)))
        except NotFound:
            continue  # it has no step yet, or has just been removed
    following = to_cursor(*place_of(infos[limit - 1])) if len(infos) > limit else None
    return answer(request, page_document(found, following, cursor=cursor))


@get(router, "/api/checkpoints/{ref}", model=CheckpointDocument, tag=_TAG, errors=(404, 409))
def get_checkpoint(request: Request, served: Served, ref: Ref) -> Response:
    """Get one checkpoint by its ref."""
    version = version_of(served.rl, ref)
    return answer(request, checkpoint_document(served.rl.history.checkpoint(ref)), version=version)


@get(router, "/api/checkpoints/{ref}/can-resume", model=PlanDocument, tag=_TAG, errors=(404, 409))
def can_resume_checkpoint(request: Request, served: Served, ref: Ref, options: Planned, disk: bool = True) -> Response:
    """Plan a resume from this checkpoint: what it would do, what prevents it, what it could not undo."""
    return answer(request, whole_plan(served.rl, ref, options, disk=disk))


@get(router, "/api/checkpoints/{ref}/diff", model=page_of(FileDocument), tag=_TAG, errors=(404, 409))
def checkpoint_diff(
    request: Request, served: Served, ref: Ref, to: Annotated[str | None, Query(max_length=250)] = None
) -> Response:
    """Compare the files of this checkpoint with another checkpoint, or with the disk."""
    return answer(request, page_document([msgspec.to_builtins(one) for one in served.rl.files.diff(ref, to)], None))


@get(router, "/api/checkpoints/{ref}/file", model=None, tag=_TAG, errors=(404, 409), media="application/octet-stream")
def checkpoint_file(
    served: Served,
    ref: Ref,
    path: Annotated[str, Query(min_length=1, max_length=4000, examples=["src/auth.py"])],
    root: Annotated[str, Query(max_length=200)] = "main",
) -> Response:
    """Download one captured file as it was at this checkpoint."""
    content = served.rl.files.read(ref, path, root=root)
    # The file may be hostile HTML: it is sent as a download, under a sandbox policy, with a plain name.
    name = re.sub(r"[^A-Za-z0-9._-]", "_", path.rpartition("/")[2])[:100] or "file"
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Content-Security-Policy": "sandbox"}
    return Response(content, media_type="application/octet-stream", headers=headers)


@post(router, "/api/checkpoints/{ref}/resume", model=StartedDocument, status=201, tag=_TAG)
def resume_checkpoint(request: Request, served: Served, ref: Ref, body: ResumeBody | None = None) -> Response:
    """Resume from this checkpoint: the session itself at its head, else a fork."""
    return resumed(request, served, ref, body or ResumeBody())


@post(router, "/api/checkpoints/{ref}/label", model=dict[str, str], tag=_TAG)
def label_checkpoint(request: Request, served: Served, ref: Ref, body: LabelBody) -> Response:
    """Label a checkpoint. A label that is used again moves to the newer checkpoint."""

    def do(rl: Relight) -> ActionResult:
        made = rl.history.label(ref, body.label)
        return ActionResult(document={"checkpoint": made, "label": body.label}, session=made.partition("@")[0])

    return served.actions.answer(request, "label", ref, do, asked=body.model_dump())


@delete(router, "/api/checkpoints/{ref}", model=ForgottenDocument, tag=_TAG)
def drop_checkpoint(request: Request, served: Served, ref: Ref) -> Response:
    """Remove the labels of a checkpoint, and its snapshots unless another checkpoint needs them. The step stays."""

    def do(rl: Relight) -> ActionResult:
        return ActionResult(document=msgspec.to_builtins(rl.history.forget(ref)))

    return served.actions.answer(request, "drop-checkpoint", ref, do)
