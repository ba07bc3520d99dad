"""Declaring routes (scope, responses and errors, all in the OpenAPI document), JSON responses with ETags, cursors."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Annotated, Any, Final, TypeVar

import msgspec
from fastapi import APIRouter, Depends, Path, Query, Request
from pydantic import BaseModel
from starlette.responses import Response

from relight.errors import UsageError
from relight.history.documents import encoded
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
) -> Callable[[_F], _F]:
    """Declare a GET route. It answers 304 to a matching `If-None-Match`."""
    answers = _answers(200, model, (*errors, *_ALWAYS), media, example)
    answers[304] = {"description": "not modified: the ETag of If-None-Match still matches"}
    return router.get(path, **_settings(scope, answers, tag))


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
) -> Callable[[_F], _F]:
    """Declare a POST route. It takes `If-Match` and `Idempotency-Key`."""
    answers = _answers(status, model, (*errors, *_ALWAYS, 408, 409, 413, 415, 422), "application/json", example)
    return router.post(path, status_code=status, **_settings(scope, answers, tag, changes=True))


def delete(
    router: APIRouter, path: str, *, model: Any, scope: Scope = "admin", tag: str = "sessions"
) -> Callable[[_F], _F]:
    """Declare a DELETE route. It takes `If-Match` and `Idempotency-Key`."""
    answers = _answers(200, model, (404, 408, 409, 413, 422, *_ALWAYS), "application/json", None)
    return router.delete(path, **_settings(scope, answers, tag, changes=True))


def _settings(scope: Scope, answers: dict[int | str, Any], tag: str, *, changes: bool = False) -> dict[str, Any]:
    extra: dict[str, Any] = {"x-scope": scope, "security": [{"bearer": []}, {"cookie": []}]}
    if changes:
        extra["parameters"] = [
            _header(
                "If-Match", "Hash of the plan that the client has seen. 409 with the new plan if the session changed."
            ),
            _header("Idempotency-Key", "The same request under the same key runs once and gets the same response."),
        ]
    return {
        "dependencies": [Depends(needs(scope))],
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
    return answers


# -- answers ----------------------------------------------------------------------------------------------------------


def answer(request: Request, document: Any, *, status: int = 200) -> Response:
    """A JSON response with an ETag; 304 without body if it matches `If-None-Match`."""
    body = encoded(document)
    tag = f'"{sha256(body).hexdigest()[:32]}"'
    headers = {"ETag": tag, "Cache-Control": "private, no-cache"}
    known = [one.strip().removeprefix("W/") for one in request.headers.get("if-none-match", "").split(",")]
    if status == 200 and (tag in known or "*" in known):
        return Response(status_code=304, headers=headers)
    return Response(body, status_code=status, media_type="application/json", headers=headers)


def page_document(items: Sequence[Any], following: str | None, **more: Any) -> dict[str, Any]:
    """A page of a list; `next` is the cursor of the following page, None at the end."""
    return {"items": list(items), "next": following, **more}


def to_cursor(*parts: str | int) -> str:
    """Encode a position as an opaque cursor."""
    return base64.urlsafe_b64encode(msgspec.json.encode(parts)).decode().rstrip("=")


def from_cursor(cursor: str, *kinds: type) -> tuple[Any, ...]:
    """Decode a cursor; UsageError for anything that `to_cursor` did not make."""
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        parts = msgspec.json.decode(raw, type=list[str | int])
    except (ValueError, msgspec.MsgspecError):
        parts = []
    fits = len(parts) == len(kinds) and all(map(_fits, parts, kinds))
    if not fits:
        raise UsageError("invalid cursor", hints=["use `next` of the previous page, or leave it out"])
    return tuple(parts)


def _fits(part: str | int, kind: type) -> bool:
    return type(part) is kind and (not isinstance(part, int) or 0 <= part <= _MAX)


class Body(BaseModel):
    """Base of request bodies: unknown fields are refused, and values are not coerced ("yes" is not true)."""

    model_config = {"extra": "forbid", "strict": True, "str_max_length": 200_000}
