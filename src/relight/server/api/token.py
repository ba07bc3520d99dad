"""`/api/tokens`: create, list and revoke API tokens. Requires the scope `admin`."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import APIRouter, Path, Request
from pydantic import Field
from starlette.responses import Response

from relight.library.facade import Relight
from relight.server.actions import ActionResult
from relight.server.http.routes import Body, answer, delete, get, page_document, post
from relight.server.http.schemas import NewTokenDocument, TokenDocument, page_of
from relight.server.service import Served
from relight.server.tokens import Scope

router = APIRouter()
_TAG = "tokens"
_ONCE = "(shown only once)"


class NewToken(Body):
    """Name and scope of a new token."""

    name: Annotated[str, Field(max_length=100, examples=["ci"])]
    scope: Scope = "read"


@get(router, "/api/tokens", model=page_of(TokenDocument), scope="admin", tag=_TAG)
def list_tokens(request: Request, served: Served) -> Response:
    """List all tokens, including revoked ones, without their values."""
    return answer(request, page_document([msgspec.to_builtins(one) for one in served.guard.tokens.listed()], None))


@post(router, "/api/tokens", model=NewTokenDocument, scope="admin", status=201, tag=_TAG, errors=(409,))
def add_token(request: Request, served: Served, body: NewToken) -> Response:
    """Create a token. Its value is in this response only, not even in a replay under the same idempotency key."""

    def do(_: Relight) -> ActionResult:
        value = served.guard.tokens.add(body.name, body.scope)
        made = next(one for one in served.guard.tokens.listed() if one.name == body.name)
        fields = msgspec.to_builtins(made)
        return ActionResult(document={**fields, "token": value}, replay_document={**fields, "token": _ONCE}, status=201)

    return served.actions.answer(request, "add-token", None, do, asked=body.model_dump())


@delete(router, "/api/tokens/{name}", model=dict[str, str], tag=_TAG)
def revoke_token(request: Request, served: Served, name: Annotated[str, Path(max_length=100)]) -> Response:
    """Revoke a token, effective at once."""

    def do(_: Relight) -> ActionResult:
        served.guard.tokens.revoke(name)
        return ActionResult(document={"revoked": name})

    return served.actions.answer(request, "revoke-token", None, do, asked={"name": name})
