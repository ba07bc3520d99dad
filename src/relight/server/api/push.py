"""`/api/push`: browsers that want a message when a session needs a person. `relight notify push` sends them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from relight.library.facade import Relight
from relight.notifications import web_push
from relight.server.actions import ActionResult
from relight.server.http.routes import Body, delete, post
from relight.server.service import Served

router = APIRouter()
_TAG = "notifications"
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


class PushKeyDocument(BaseModel):
    """The public key that a browser subscribes with."""

    public_key: str


class PushNameDocument(BaseModel):
    """The name under which a subscription can be removed."""

    name: str


class PushKeys(Body):
    """The keys of a subscription, as the browser gives them."""

    p256dh: Annotated[str, Field(max_length=200)]
    auth: Annotated[str, Field(max_length=100)]


class NewSubscription(Body):
    """A browser's push subscription, as `PushSubscription.toJSON()` gives it."""

    endpoint: Annotated[str, Field(max_length=2000)]
    expirationTime: float | None = None
    keys: PushKeys


@post(router, "/api/push/key", model=PushKeyDocument, tag=_TAG, errors=())
def push_key(request: Request, served: Served) -> Response:
    """Tell the key that browsers subscribe with; it is made at first use. Needs cryptography on the server."""

    def do(rl: Relight) -> ActionResult:
        web_push.check_installed()
        return ActionResult(document={"public_key": web_push.public_key(rl.store)})

    return served.actions.answer(request, "push-key", None, do, asked={})


@post(router, "/api/push", model=PushNameDocument, status=201, tag=_TAG, errors=())
def add_subscription(request: Request, served: Served, body: NewSubscription) -> Response:
    """Store a browser's subscription. Messages about sessions that need a person are then sent to it."""

    def do(rl: Relight) -> ActionResult:
        host = request.url.hostname or ""
        here = host in _LOOPBACK or host.endswith(".localhost")
        name = web_push.subscribe(rl.store, body.endpoint, body.keys.p256dh, body.keys.auth, loopback=here)
        return ActionResult(document={"name": name}, status=201)

    # The address and its keys are secrets of the browser: the audit log has the name alone.
    asked = {"name": web_push.name_of(body.endpoint)}
    return served.actions.answer(request, "subscribe", None, do, asked=asked)


@delete(router, "/api/push/{name}", model=PushNameDocument, scope="operate", tag=_TAG)
def remove_subscription(
    request: Request, served: Served, name: Annotated[str, Path(pattern="^[0-9a-f]{32}$")]
) -> Response:
    """Forget a browser's subscription."""

    def do(rl: Relight) -> ActionResult:
        web_push.unsubscribe(rl.store, name)
        return ActionResult(document={"name": name})

    return served.actions.answer(request, "unsubscribe", None, do, asked={"name": name})
