"""`POST /api/agent/runs/resume`: resume in the field names that clients of agent-run services use."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import Field
from starlette.responses import Response

from relight.library.facade import Relight
from relight.server.actions import ActionResult
from relight.server.api.sessions import check_prompt, started_document
from relight.server.http.routes import Body, post
from relight.server.http.schemas import StartedDocument, document
from relight.server.service import Served
from relight.values.options import ResumeOptions

router = APIRouter()


class RunResume(Body):
    """A checkpoint and a prompt; both are required."""

    checkpointId: Annotated[str, Field(min_length=1, max_length=250, examples=["fix-login@206"])]
    prompt: Annotated[str, Field(min_length=1, max_length=100_000, examples=["try argon2 instead"])]


_STARTED = document(
    "RunStarted", "Like any other start; `resumed_from` is the checkpoint.", StartedDocument, checkpointId=str
)


@post(router, "/api/agent/runs/resume", model=_STARTED, status=201, tag="runs", pinned=True)
def resume_run(request: Request, served: Served, body: RunResume) -> Response:
    """Resume from a checkpoint with a prompt. A failed resume leaves no session behind."""

    def do(rl: Relight) -> ActionResult:
        check_prompt(served, body.prompt)
        started = served.starter.resume(rl, body.checkpointId, ResumeOptions(prompt=body.prompt))
        made: dict[str, Any] = {**started_document(started), "checkpointId": body.checkpointId}
        return ActionResult(document=made, status=201, session=started.session.id)

    return served.actions.answer(request, "resume", body.checkpointId, do, asked=body.model_dump())
