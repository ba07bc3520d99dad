"""`/api/tokens`: who may come in. Only for `admin`; a value is told once, when it is made."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import APIRouter, Path, Request
from pydantic import Field
from starlette.responses import Response

from relight.library.facade import Relight
from relight.server.actions import ActionResult
from relight.server.http.routes import Body, answer, delete, get, page_document, post
from relight.server.http.schemas import NewTokenDocument, Page, TokenDocument
from relight.server.service import Served
from relight.server.tokens import Scope

router = APIRouter()
_TAG = "tokens"
_ONCE = "(it was told once)"


class NewToken(Body):
    """A name to revoke it by, and how much it may do."""

    name: Annotated[str, Field(max_length=100, examples=["ci"])]
    scope: Scope = "read"


@get(router, "/api/tokens", model=Page[TokenDocument], scope="admin", tag=_TAG)
def list_tokens(request: Request, served: Served) -> Response:
    """All tokens, revoked ones too; never their values."""
    return answer(request, page_document([msgspec.to_builtins(one) for one in served.guard.tokens.listed()], None))


@post(router, "/api/tokens", model=NewTokenDocument, scope="admin", status=201, tag=_TAG, errors=(409,))
def add_token(request: Request, served: Served, body: NewToken) -> Response:
    """A new token. Keep its value: it is not told again, not even under the same idempotency key."""

    def do(_: Relight) -> ActionResult:
        value = served.guard.tokens.add(body.name, body.scope)
        made = next(one for one in served.guard.tokens.listed() if one.name == body.name)
        told = msgspec.to_builtins(made)
        return ActionResult(document={**told, "token": value}, replay_document={**told, "token": _ONCE}, status=201)

    return served.actions.answer(request, "add-token", None, do, asked=body.model_dump())


@delete(router, "/api/tokens/{name}", model=dict[str, str], tag=_TAG)
def revoke_token(request: Request, served: Served, name: Annotated[str, Path(max_length=100)]) -> Response:
    """From now on it opens nothing."""

    def do(_: Relight) -> ActionResult:
        served.guard.tokens.revoke(name)
        return ActionResult(document={"revoked": name})

    return served.actions.answer(request, "revoke-token", None, do, asked={"name": name})
