"""Declaring routes (scope, responses and errors, all in the OpenAPI document), JSON responses with ETags, cursors."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Annotated, Any, Final, TypeVar

import msgspec
from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.responses import Response

from relight.errors import UsageError
from relight.history.documents import encoded
from relight.server.http.compression import without_coding
from relight.server.http.guard import needs
from relight.server.http.problems import MEDIA, TITLES
from relight.server.tokens import Scope

_F = TypeVar("_F", bound=Callable[..., Any])
_ALWAYS: Final = (400, 401, 403, 429, 503)
_MAX: Final = 2**53
"""the largest number in a cursor: every store can represent it"""
_REF: Final = (
    "A session's full id, exact name or an id prefix of at least 4 characters; then `@seq`, `@label` or nothing."
)

Ref = Annotated[str, Path(description=_REF, examples=["fix-login", "fix-login@206"], max_length=250)]
Cursor = Annotated[str | None, Query(description="The `next` of the previous page.", max_length=500, examples=[None])]


def get(
    router: APIRouter,
    path: str,
    *,
    model: Any,
    scope: Scope = "read",
    errors: Sequence[int] = (),
    tag: str = "sessions",
    media: str = "application/json",
    example: Any = None,
    events: Mapping[str, str] | None = None,
) -> Callable[[_F], _F]:
    """Declare a GET route. It answers 304 to a matching `If-None-Match`. `events`: of a stream, name -> schema."""
    answers = _answers(200, model, (*errors, *_ALWAYS), media, example)
    if events is not None:
        data = {name: {"$ref": f"#/components/schemas/{schema}"} for name, schema in events.items()}
        answers[200]["content"][media]["x-events"] = data
    settings = _settings(scope, answers, tag)
    if model is not None:
        answers[200]["headers"] = {"ETag": _shown("Of this response; sent back as If-None-Match it spares the next.")}
        answers[304] = {"description": "not modified: the ETag of If-None-Match still matches"}
        settings["openapi_extra"]["parameters"] = [
            _header("If-None-Match", "ETag of the response that the client has.")
        ]
    return router.get(path, **settings)


def post(
    router: APIRouter,
    path: str,
    *,
    model: Any,
    scope: Scope = "operate",
    errors: Sequence[int] = (404, 409),
    status: int = 200,
    tag: str = "sessions",
    example: Any = None,
    pinned: bool | None = None,
) -> Callable[[_F], _F]:
    """Declare a POST route. It takes `Idempotency-Key`, and `If-Match` where it changes one session: `pinned`, which
    is taken from the path."""
    pinned = _of_session(path) if pinned is None else pinned
    declared = (*errors, *_ALWAYS, 408, 409, *((412,) if pinned else ()), 413, 415, 422)
    answers = _answers(status, model, declared, "application/json", example)
    return router.post(path, status_code=status, **_settings(scope, answers, tag, changes=True, pinned=pinned))


def patch(router: APIRouter, path: str, *, model: Any, scope: Scope = "operate") -> Callable[[_F], _F]:
    """Declare a PATCH route of one session. It takes `If-Match` and `Idempotency-Key`."""
    answers = _answers(200, model, (404, 408, 409, 412, 413, 415, 422, *_ALWAYS), "application/json", None)
    return router.patch(path, **_settings(scope, answers, "sessions", changes=True, pinned=True))


def delete(
    router: APIRouter, path: str, *, model: Any, scope: Scope = "admin", tag: str = "sessions"
) -> Callable[[_F], _F]:
    """Declare a DELETE route. It takes `Idempotency-Key`, and `If-Match` where it changes one session."""
    pinned = _of_session(path)
    declared = (404, 408, 409, *((412,) if pinned else ()), 413, 422, *_ALWAYS)
    answers = _answers(200, model, declared, "application/json", None)
    return router.delete(path, **_settings(scope, answers, tag, changes=True, pinned=pinned))


def _of_session(path: str) -> bool:
    return "{ref}" in path


async def check_query(request: Request) -> None:
    """UsageError for a query parameter that the route does not know, or that is given twice: nothing is ignored."""
    known = _parameters(request.scope["route"])
    given = [name for name, _ in request.query_params.multi_items()]
    unknown = sorted({name[:100] for name in given if name not in known})
    if unknown:
        hints = [f"known here: {', '.join(sorted(known))}" if known else "this request takes none"]
        raise UsageError(f"unknown query parameter: {', '.join(map(ascii, unknown[:10]))}", hints=hints)
    repeated = sorted({name for name in given if given.count(name) > 1 and not known[name]})
    if repeated:
        raise UsageError(f"repeated query parameter: {', '.join(repeated)}", hints=["give each of them once"])


def _parameters(route: APIRoute) -> dict[str, bool]:
    """The query parameters of a route, and whether each may be repeated."""
    left: list[Dependant] = [route.dependant]
    found: dict[str, bool] = {}
    while left:
        one = left.pop()
        left += one.dependencies
        found |= {field.alias: "list[" in str(field.field_info.annotation) for field in one.query_params}
    return found


def _settings(
    scope: Scope, answers: dict[int | str, Any], tag: str, *, changes: bool = False, pinned: bool = False
) -> dict[str, Any]:
    extra: dict[str, Any] = {"x-scope": scope, "security": [{"bearer": []}, {"cookie": []}]}
    if changes:
        extra["parameters"] = [
            _header("Idempotency-Key", "The same request under the same key runs once and gets the same response."),
        ]
    if pinned:
        extra["parameters"] += [
            _header(
                "If-Match",
                "The session's ETag (412 if it changed since), or the hash of the plan that the client has seen (409"
                " with the new plan).",
            ),
        ]
    return {
        "dependencies": [Depends(needs(scope)), Depends(check_query)],
        "responses": answers,
        "response_model": None,
        "openapi_extra": extra,
        "tags": [tag],
    }


def _header(name: str, meaning: str) -> dict[str, Any]:
    schema = {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[!-~]+$"}
    return {"name": name, "in": "header", "required": False, "description": meaning, "schema": schema}


def _answers(status: int, model: Any, errors: Sequence[int], media: str, example: Any) -> dict[int | str, Any]:
    good: dict[str, Any] = {"description": "created" if status == 201 else "success"}
    if model is not None:
        good["model"] = model
    if example is not None:
        good["content"] = {media: {"example": example}}
    elif model is None:
        good["content"] = {media: {"schema": {"type": "string"}}}
    answers: dict[int | str, Any] = {status: good}
    gone = (410,) if 404 in errors else ()  # a removed session is distinguished from one that never existed
    for code in sorted({*errors, *gone}):
        reference = {"schema": {"$ref": "#/components/schemas/Problem"}}
        answers[code] = {"description": TITLES[code], "content": {MEDIA: reference}}
        if code in (429, 503):
            answers[code]["headers"] = {"Retry-After": _shown("Seconds to wait before the next try.")}
    if status == 201:
        good["headers"] = {"Location": _shown("Path of what was created or started.")}
    return answers


def _shown(meaning: str) -> dict[str, Any]:
    return {"description": meaning, "schema": {"type": "string"}}


# -- answers ----------------------------------------------------------------------------------------------------------


def answer(request: Request, document: Any, *, version: str = "") -> Response:
    """A JSON response with an ETag; 304 without body if it matches `If-None-Match`. `version`: the state that a change
    with this ETag as `If-Match` requires; without it, such a change is refused."""
    body = encoded(document)
    tag = f'"{version}{"." if version else ""}{sha256(body).hexdigest()[:32]}"'
    headers = {"ETag": tag, "Cache-Control": "private, no-cache"}
    if (known := known_tag(request, tag)) is not None:
        return Response(status_code=304, headers={**headers, "ETag": known})
    return Response(body, media_type="application/json", headers=headers)


def known_tag(request: Request, tag: str) -> str | None:
    """The ETag under which the client has the document of this one, in any coding; None if it has not."""
    given = request.headers.get("if-none-match", "").split(",")
    known = {without_coding(one): one for one in (each.strip().removeprefix("W/") for each in given)}
    return known.get(tag, tag if "*" in known else None)


def page_document(
    items: Sequence[Any], following: str | None, *, total: int | None = None, cursor: str | None = None, **more: Any
) -> dict[str, Any]:
    """A page of a list; `next` is the cursor of the following page, None at the end. Without a `total` that is known
    at once, it is what this page proves: exact where it is the first (no `cursor`) and the last, else a lower bound."""
    exact = total is not None or (following is None and cursor is None)
    total = len(items) + (following is not None) if total is None else total
    return {"items": list(items), "next": following, "total": total, "exact": exact, **more}


def to_cursor(*parts: str | int | float) -> str:
    """Encode a position as an opaque cursor."""
    return base64.urlsafe_b64encode(msgspec.json.encode(parts)).decode().rstrip("=")


def from_cursor(cursor: str, *kinds: type) -> tuple[Any, ...]:
    """Decode a cursor; UsageError for anything that `to_cursor` did not make."""
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        parts = msgspec.json.decode(raw, type=list[str | int | float])
    except (ValueError, msgspec.MsgspecError):
        parts = []
    fits = len(parts) == len(kinds) and all(map(_fits, parts, kinds))
    if not fits:
        raise UsageError("invalid cursor", hints=["use `next` of the previous page, or leave it out"])
    return tuple(parts)


def _fits(part: str | int | float, kind: type) -> bool:
    least = -1 if kind is float else 0  # a cost that is not known
    return type(part) is kind and (isinstance(part, str) or least <= part <= _MAX)


class Body(BaseModel):
    """Base of request bodies: unknown fields are refused, and values are not coerced ("yes" is not true)."""

    model_config = {"extra": "forbid", "strict": True, "str_max_length": 200_000}
