"""Errors over HTTP: RFC 9457 problem documents with a stable code, evidence and hints; never a traceback."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final
from urllib.parse import quote

import msgspec
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import compile_path

from relight.errors import Corrupt, NotFound, RelightError, UsageError
from relight.server.http.hints import http_hints, http_text, without_flags
from relight.server.http.logs import LOG
from relight.server.http.refusals import Unauthorised
from relight.system.environment_secrets import redactor

MEDIA: Final = "application/problem+json"
TITLES: Final = {
    400: "bad request",
    401: "authentication required",
    403: "forbidden",
    404: "not found",
    405: "method not allowed",
    406: "not acceptable",
    408: "request timed out",
    409: "conflict with the session's state",
    410: "removed",
    412: "the session has changed",
    413: "request too large",
    415: "JSON required",
    422: "idempotency key reused",
    429: "too many requests",
    500: "internal server error",
    501: "not supported by this server",
    503: "the store is unavailable",
}
_MAX_ERRORS: Final = 20
_MAX_INSTANCE: Final = 500


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """A problem document before encoding; the members of `more` are added at its top level."""

    status: int
    code: str
    detail: str
    evidence: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()
    """for API clients: requests and body members, no CLI commands or flags"""
    commands: tuple[str, ...] = ()
    """to be run in a terminal on the server's machine, for what no request can do"""
    terminal: tuple[str, ...] = ()
    """all hints as CLI commands, for error pages"""
    more: Mapping[str, Any] = {}

    def __post_init__(self) -> None:
        # An error may quote the request, or the output of a program: redact here, where all of them pass.
        clean = redactor().value
        for name in ("detail", "evidence", "hints", "more"):
            value = getattr(self, name)
            if value and (redacted := clean(value)) is not value:
                msgspec.structs.force_setattr(self, name, tuple(redacted) if type(value) is tuple else redacted)

    @property
    def title(self) -> str:
        """Short text of the status, as RFC 9457 asks; the same for all problems of one status."""
        return TITLES.get(self.status, "refused")

    def document(self, instance: str | None = None) -> dict[str, Any]:
        """The members of the RFC 9457 document. `instance`: the path of the request."""
        return {
            "type": f"urn:relight:problem:{self.code}",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            "code": self.code,
            **({"instance": instance} if instance is not None else {}),
            "evidence": list(self.evidence),
            "hints": list(self.hints),
            **({"commands": list(self.commands)} if self.commands else {}),
            **self.more,
        }

    def headers(self) -> dict[str, str]:
        """Response headers that the status requires."""
        if self.status == 401:
            return {"WWW-Authenticate": 'Bearer realm="relight"'}
        return {"Retry-After": "1"} if self.status in (429, 503) else {}

    def response(self, instance: str | None = None) -> Response:
        """The problem as an application/problem+json response."""
        body = msgspec.json.encode(self.document(instance))
        return Response(body, status_code=self.status, media_type=MEDIA, headers=self.headers())


ErrorPage = Callable[[Request, Problem], Response | None]
"""renders a problem as an HTML page; None: send the document"""


def problem_of(error: RelightError, **more: Any) -> Problem:
    """The problem document of a RelightError."""
    # A damaged session, or a program under relight that failed, is no fault of this server: 409, so that a 5xx in
    # the metrics always means the server itself or its store.
    status = 409 if isinstance(error, Corrupt) or error.http_status == 500 else error.http_status
    hints = http_hints(error.hints)
    return Problem(
        status=status,
        code=error.code,
        detail=detail_of(error),
        evidence=tuple(line for line in error.evidence if not line.lstrip().startswith("hint:")),
        hints=hints.hints,
        commands=hints.commands,
        terminal=error.hints,
        more=more,
    )


def detail_of(error: RelightError) -> str:
    """The error's message without CLI flags."""
    return http_text(error.message) or without_flags(error.message)


def answer_problem(request: Request, problem: Problem) -> Response:
    """The response for a problem: an HTML page for a browser, else the document."""
    draw: ErrorPage | None = getattr(request.app.state, "error_page", None) if "app" in request.scope else None
    if draw is not None and wants_page(request):
        drawn = draw(request, problem)
        if drawn is not None:
            for name, value in problem.headers().items():
                drawn.headers.setdefault(name, value)
            return drawn
    return problem.response(redactor().text(quote(path_of(request)[:_MAX_INSTANCE], safe="/@")))


def _gone(request: Request, error: NotFound) -> Problem | None:
    """The 410 problem where what was not found is a removed session (http/gone.py)."""
    find: Callable[[Request, NotFound], Problem | None] | None = getattr(request.app.state, "removed", None)
    return find(request, error) if find is not None else None


def path_of(request: Request) -> str:
    """The path that the router uses. Not `request.url.path`: that is parsed with the Host header, which a client can
    forge so that another path comes out (`Host: x/healthz?`)."""
    path = request.scope["path"]
    assert isinstance(path, str)
    return path


def wants_page(request: Request) -> bool:
    """Whether the client is a browser that asks for a page; API paths always answer in JSON."""
    path = path_of(request)
    if path.startswith("/api/") or path in ("/openapi.json", "/metrics", "/healthz"):
        return False
    return "text/html" in request.headers.get("accept", "")


def install(app: FastAPI) -> None:
    """Register the handlers that turn every error of a route into a problem document."""

    async def ours(request: Request, error: Exception) -> Response:
        assert isinstance(error, RelightError)
        more = {"plan": plan} if (plan := getattr(error, "plan", None)) is not None else {}
        if isinstance(error, NotFound):
            gone = await asyncio.to_thread(_gone, request, error)
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
        detail = f"no such path: {path_of(request)[:200]!r}" if error.status_code == 404 else str(error.detail)
        problem = Problem(status=error.status_code, code=code, detail=detail, hints=("see /openapi.json",))
        answered = answer_problem(request, problem)
        answered.headers.update(error.headers or {})
        if error.status_code == 405 and (allowed := _allowed(request)):
            answered.headers["allow"] = ", ".join(allowed)
        return answered

    handlers: dict[type[Exception], Callable[[Request, Exception], Awaitable[Response]]] = {
        RelightError: ours,
        RequestValidationError: invalid,
        HTTPException: plain,
    }
    for kind, handler in handlers.items():
        app.add_exception_handler(kind, handler)


def _allowed(request: Request) -> list[str]:
    """The methods of a path. Each method is a route of its own, and the router names those of the first alone."""
    paths: dict[str, Any] = request.app.openapi()["paths"]
    mine = [known for path, known in paths.items() if compile_path(path)[0].match(path_of(request))]
    found = {one.upper() for known in mine for one in known}
    return sorted(found | ({"HEAD"} if "GET" in found else set()))


def _invalid(error: RequestValidationError) -> Problem:
    """Names each missing or invalid field. Values are left out: one may be a secret."""
    found = []
    for one in error.errors()[:_MAX_ERRORS]:
        where = [str(part) for part in one.get("loc", ()) if part not in ("body", "query", "path", "header")]
        why = "no such field" if one.get("type") == "extra_forbidden" else str(one.get("msg", "not valid"))[:300]
        found.append({"field": ".".join(where)[:200] or "body", "why": why})
    missing = [one["field"] for one in found if one["why"] == "Field required"]
    detail = f"missing: {', '.join(missing)}" if missing else "; ".join(f"{f['field']}: {f['why']}" for f in found)
    evidence = tuple(f"{one['field']}: {one['why']}" for one in found)
    return Problem(
        status=400, code=UsageError.code, detail=detail[:1000], evidence=evidence, hints=("see /openapi.json",),
        more={"errors": found},
    )  # fmt: skip
