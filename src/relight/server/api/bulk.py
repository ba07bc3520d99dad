"""`/api/archive`, `/api/resume`, `/api/stop`, `/api/label`, `/api/remove`: the same for several sessions at once.

Each session is a change of its own, with its plan hash, its audit entry and its outcome in the response. One that is
refused does not stop the others.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Annotated, Any, Final

from fastapi import APIRouter, Request
from pydantic import Field
from starlette.responses import Response

from relight.errors import RelightError, UsageError
from relight.journal.bulk_resume import FailureGroup, group_by_failure
from relight.library.facade import Relight
from relight.server.actions import ActionResult
from relight.server.api.session_writing import Why
from relight.server.api.sessions import Short
from relight.server.http.gone import removed_of
from relight.server.http.guard import principal_of
from relight.server.http.problems import detail_of
from relight.server.http.routes import answer, get, page_document, post
from relight.server.http.schemas import AlikeDocument, FinishedPage, SeveralDocument, page_of
from relight.server.service import Served, Service
from relight.values.info import SessionInfo
from relight.values.status import Status

router = APIRouter()
MAX: Final = 100
"""sessions per request"""
_MAX_SCANNED: Final = 1000
_STOPPED: Final[tuple[Status, ...]] = ("terminated", "failed", "queued")


class SeveralBody(Why):
    """Which sessions, and the plan hash that the client has seen of each."""

    sessions: Annotated[list[Short], Field(min_length=1, max_length=MAX)]
    plans: dict[Short, Short] = Field(
        default={}, max_length=MAX, description="session to the `plan` of its preview; one that has changed is skipped"
    )


class SeveralLabelBody(SeveralBody):
    """A label to give to sessions, or to take from them."""

    key: Annotated[str, Field(min_length=1, max_length=500, examples=["team"])]
    value: Short | None = Field(
        default=None, description="its value; it replaces the one that a session has", examples=["web"]
    )
    unset: bool = Field(default=False, description="Take the label away instead.")


def finished(rl: Relight) -> tuple[list[SessionInfo], int]:
    """The sessions that could be archived, newest first, and how many more there are."""
    found = list(islice(rl.sessions.list(status="completed"), MAX))
    return found, max(0, rl.sessions.counts().get("completed", 0) - len(found)) if len(found) == MAX else 0


def stopped_alike(rl: Relight, *, most: int = _MAX_SCANNED) -> list[FailureGroup]:
    """The newest stopped sessions, up to `most` of a status, grouped by cause; groups of one are left out."""
    return group_by_failure(info for status in _STOPPED for info in islice(rl.sessions.list(status=status), most))


@get(router, "/api/archive", model=FinishedPage)
def archive_preview(request: Request, served: Served) -> Response:
    """Preview: the completed sessions that could be archived, newest first. Nothing is changed."""
    found, more = finished(served.rl)
    return answer(
        request, page_document([_document(served.rl, info) for info in found], None, total=len(found) + more, more=more)
    )


@post(router, "/api/archive", model=SeveralDocument)
def archive_several(request: Request, served: Served, body: SeveralBody) -> Response:
    """Archive several sessions: they stay readable, and are never resumed. The response has the outcome of each."""

    def do(rl: Relight, session: str) -> ActionResult:
        made = rl.sessions.archive(session)
        return ActionResult(document=None, session=made.session, undo=f"relight fork {made.session[:12]}")

    return _each(request, served, "archive", body, do)


@get(router, "/api/resume", model=page_of(AlikeDocument))
def resume_preview(request: Request, served: Served) -> Response:
    """Preview: sessions that stopped for the same reason and could be resumed, by group. Nothing is changed."""
    groups = [
        {"cause": one.cause, "items": [_document(served.rl, info) for info in one.sessions[:MAX]]}
        for one in stopped_alike(served.rl)
    ]
    return answer(request, page_document(groups, None))


@post(router, "/api/resume", model=SeveralDocument)
def resume_several(request: Request, served: Served, body: SeveralBody) -> Response:
    """Resume several sessions, one after the other, each like `POST /api/sessions/{ref}/resume`."""

    def do(rl: Relight, session: str) -> ActionResult:
        started = served.starter.resume(rl, session)
        return ActionResult(document=None, session=started.session.id, undo=f"relight stop {started.session.title}")

    return _each(request, served, "resume", body, do)


@post(router, "/api/stop", model=SeveralDocument)
def stop_several(request: Request, served: Served, body: SeveralBody) -> Response:
    """Stop several running sessions, one after the other. Saved steps are kept."""

    def do(rl: Relight, session: str) -> ActionResult:
        # Unpinned: the process that ends commits steps itself, which a pinned store would refuse as a change.
        stopped = rl.unpinned.runs.stop(session)
        return ActionResult(document=None, session=stopped.session, undo=f"relight resume {stopped.session[:12]}")

    return _each(request, served, "stop", body, do)


@post(router, "/api/label", model=SeveralDocument)
def label_several(request: Request, served: Served, body: SeveralLabelBody) -> Response:
    """Give a label to several sessions, or take it from them. Their other labels and their steps stay."""
    if body.unset == (body.value is not None):
        raise UsageError("a label needs its `value`, or `unset` to take it away")
    labels = {body.key: body.value}

    def do(rl: Relight, session: str) -> ActionResult:
        return ActionResult(document=None, session=rl.sessions.update(session, labels=labels).id)

    return _each(request, served, "label", body, do, labels=labels)


@post(router, "/api/remove", model=SeveralDocument, scope="admin")
def remove_several(request: Request, served: Served, body: SeveralBody) -> Response:
    """Remove several sessions and all their data. One that a fork or a child needs is refused, others go."""

    def do(rl: Relight, session: str) -> ActionResult:
        rl.sessions.remove(session)
        return ActionResult(document=None)

    return _each(request, served, "remove", body, do)


def _each(
    request: Request,
    served: Service,
    verb: str,
    body: SeveralBody,
    do: Callable[[Relight, str], ActionResult],
    **given: Any,
) -> Response:
    who = principal_of(request)

    def one(session: str) -> dict[str, Any]:
        try:
            plan = body.plans.get(session)
            served.actions.run(
                who, verb, session, lambda rl: do(rl, session), asked=given, why=body.why, plan_hash=plan
            )
        except RelightError as error:
            gone = removed_of(served, error)
            detail = gone.detail if gone is not None else detail_of(error)
            return {"session": session, "done": False, "detail": detail, "code": error.code}
        return {"session": session, "done": True, "detail": "", "code": None}

    def all_of_them(_: Relight) -> ActionResult:
        items = [one(session) for session in dict.fromkeys(body.sessions)]
        done = sum(item["done"] for item in items)
        return ActionResult(document={"items": items, "done": done, "refused": len(items) - done})

    asked = {"sessions": body.sessions, "plans": len(body.plans), **given}
    return served.actions.answer(request, f"{verb}-several", None, all_of_them, asked=asked, why=body.why)


def _document(rl: Relight, info: SessionInfo) -> dict[str, Any]:
    return {
        "session": info.id,
        "name": info.name,
        "status": info.status,
        "reason": info.reason,
        "head": info.head,
        "updated_at": info.updated_at,
        "plan": rl.runs.plan_hash(info.id),
    }
