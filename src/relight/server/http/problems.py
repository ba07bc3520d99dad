"""Errors over HTTP: RFC 9457 problem documents with our stable code, evidence and hints. Never a traceback."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from relight.errors import Corrupt, NotFound, RelightError, UsageError
from relight.server.http.logs import LOG
from relight.server.http.refusals import Unauthorised
from relight.server.http.wording import spoken, told, without_flags
from relight.system.machine import redactor

MEDIA: Final = "application/problem+json"
TITLES: Final = {
    400: "the request cannot be right",
    401: "a token is needed",
    403: "not allowed",
    404: "not found",
    405: "not possible with this address",
    406: "not in this form",
    408: "the request did not arrive in time",
    409: "the session's state forbids it",
    410: "gone",
    412: "the state has moved",
    413: "too large",
    415: "JSON is needed",
    422: "the key belongs to another request",
    429: "too many requests",
    500: "a fault of the server",
    501: "not available here",
    503: "the store does not answer",
}
_MAX_ERRORS: Final = 20


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """What goes over the wire; `more` stands beside the named members."""

    status: int
    code: str
    detail: str
    evidence: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()
    """as HTTP says them: requests and members, no verb and no flag of the command line"""
    commands: tuple[str, ...] = ()
    """to be run in a terminal on the machine of the server, where no request can do it"""
    terminal: tuple[str, ...] = ()
    """all hints as the command line has them, for a person at a page"""
    more: Mapping[str, Any] = {}

    def __post_init__(self) -> None:
        """Whatever it says, it says without secrets: an error may repeat what was sent, or what a program printed."""
        clean = redactor().value
        for name in ("detail", "evidence", "hints", "more"):
            said = getattr(self, name)
            if said and (after := clean(said)) is not said:
                msgspec.structs.force_setattr(self, name, tuple(after) if type(said) is tuple else after)

    @property
    def title(self) -> str:
        """The kind of problem, the same for all of its status."""
        return TITLES.get(self.status, "refused")

    def document(self) -> dict[str, Any]:
        """As RFC 9457 has it."""
        return {
            "type": f"urn:relight:problem:{self.code}",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            "code": self.code,
            "evidence": list(self.evidence),
            "hints": list(self.hints),
            **({"commands": list(self.commands)} if self.commands else {}),
            **self.more,
        }

    def headers(self) -> dict[str, str]:
        """What belongs to its status."""
        if self.status == 401:
            return {"WWW-Authenticate": 'Bearer realm="relight"'}
        return {"Retry-After": "1"} if self.status in (429, 503) else {}

    def response(self) -> Response:
        """To be sent."""
        body = msgspec.json.encode(self.document())
        return Response(body, status_code=self.status, media_type=MEDIA, headers=self.headers())


ErrorPage = Callable[[Request, Problem], Response | None]
"""draws a problem for a person; None where it does not want to"""


def problem_of(error: RelightError, **more: Any) -> Problem:
    """An error of ours. What is broken in the store is the operator's business, and no 5xx of the server's own."""
    status = 409 if isinstance(error, Corrupt) else error.http_status
    if status == 500:
        status = 409  # the program under relight failed; the request was fine and nothing changed
    worded = told(error.hints)
    return Problem(
        status=status,
        code=error.code,
        detail=detail_of(error),
        evidence=tuple(line for line in error.evidence if not line.lstrip().startswith("hint:")),
        hints=worded.hints,
        commands=worded.commands,
        terminal=error.hints,
        more=more,
    )


def detail_of(error: RelightError) -> str:
    """What happened, without words that only the command line knows."""
    return spoken(error.message) or without_flags(error.message)


def answer_problem(request: Request, problem: Problem) -> Response:
    """As a document; as a page for a person who looks at one."""
    draw: ErrorPage | None = getattr(request.app.state, "error_page", None) if "app" in request.scope else None
    if draw is not None and wants_page(request):
        drawn = draw(request, problem)
        if drawn is not None:
            for name, value in problem.headers().items():
                drawn.headers.setdefault(name, value)
            return drawn
    return problem.response()


def _gone(request: Request) -> Problem | None:
    """Where what was not found is a session that was removed: when, by whom and why."""
    look: Callable[[Request], Problem | None] | None = getattr(request.app.state, "removed", None)
    return look(request) if look is not None else None


def path_of(request: Request) -> str:
    """The path as the router sees it; `request.url` is put together with the Host header, which can lead it astray."""
    path = request.scope["path"]
    assert isinstance(path, str)
    return path


def wants_page(request: Request) -> bool:
    """Does a browser show it to a person? The API answers in JSON whoever asks."""
    path = path_of(request)
    if path.startswith("/api/") or path in ("/openapi.json", "/metrics", "/healthz"):
        return False
    return "text/html" in request.headers.get("accept", "")


def install(app: FastAPI) -> None:
    """Every error of every route becomes a problem."""

    async def ours(request: Request, error: Exception) -> Response:
        assert isinstance(error, RelightError)
        more = {"plan": plan} if (plan := getattr(error, "plan", None)) is not None else {}
        if isinstance(error, NotFound):
            gone = await asyncio.to_thread(_gone, request)
            if gone is not None:
                return answer_problem(request, gone)
        if isinstance(error, Unauthorised):
            LOG.info("refused", extra={"code": error.code, "path": path_of(request)})
        return answer_problem(request, problem_of(error, **more))

    async def invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return answer_problem(request, _invalid(error))

    async def plain(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        code = {404: NotFound.code}.get(error.status_code, UsageError.code)
        detail = f"nothing is at {path_of(request)[:200]!a}" if error.status_code == 404 else str(error.detail)
        problem = Problem(status=error.status_code, code=code, detail=detail, hints=("see /openapi.json",))
        answered = answer_problem(request, problem)
        answered.headers.update(error.headers or {})
        return answered

    handlers: dict[type[Exception], Callable[[Request, Exception], Awaitable[Response]]] = {
        RelightError: ours,
        RequestValidationError: invalid,
        HTTPException: plain,
    }
    for kind, handler in handlers.items():
        app.add_exception_handler(kind, handler)


def _invalid(error: RequestValidationError) -> Problem:
    """Names each field that is missing or wrong, without repeating what was sent."""
    found = []
    for one in error.errors()[:_MAX_ERRORS]:
        where = [str(part) for part in one.get("loc", ()) if part not in ("body", "query", "path", "header")]
        found.append({"field": ".".join(where)[:200] or "body", "why": str(one.get("msg", "not valid"))[:300]})
    missing = [one["field"] for one in found if one["why"] == "Field required"]
    detail = f"missing: {', '.join(missing)}" if missing else "; ".join(f"{f['field']}: {f['why']}" for f in found)
    evidence = tuple(f"{one['field']}: {one['why']}" for one in found)
    return Problem(
        status=400, code=UsageError.code, detail=detail[:1000], evidence=evidence, hints=("see /openapi.json",),
        more={"errors": found},
    )  # fmt: skip
