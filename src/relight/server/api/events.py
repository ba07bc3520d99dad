"""`/api/events` and `/api/sessions/{ref}/events`: server-sent events with replay and heartbeat."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from relight.errors import RelightError, UsageError
from relight.server.http.logs import LOG
from relight.server.http.problems import path_of
from relight.server.http.routes import Ref, get
from relight.server.http.schemas import GENERAL_EVENTS, SESSION_EVENTS
from relight.server.metrics import Metrics
from relight.server.service import Served, Service

router = APIRouter()
_MEDIA = "text/event-stream"
LastId = Annotated[
    str | None, Header(alias="Last-Event-ID", max_length=100, description="Id of the last event received.")
]


@get(router, "/api/events", model=None, tag="events", media=_MEDIA, events=GENERAL_EVENTS)
async def all_events(
    request: Request,
    served: Served,
    last_event_id: LastId = None,
    after: Annotated[str | None, Query(max_length=100, description="As Last-Event-ID.")] = None,
    brief: Annotated[
        bool, Query(description="Of a session only `id`, `status`, `seq` and `created_at`; of `counts` nothing.")
    ] = False,
) -> Response:
    """Stream changes of all sessions: `session`, `counts`, and `reload` for a client that missed too many events."""
    served.hub.check_room()
    last = after if last_event_id is None else last_event_id
    return EventStream(served, request, served.hub.everything(last, in_brief=brief))


@get(
    router,
    "/api/sessions/{ref}/events",
    model=None,
    tag="events",
    media=_MEDIA,
    errors=(404, 409),
    events=SESSION_EVENTS,
)
async def session_events(
    request: Request,
    served: Served,
    ref: Ref,
    last_event_id: LastId = None,
    after: Annotated[int | None, Query(ge=0, le=10**15, description="As Last-Event-ID; 0 is the beginning.")] = None,
) -> Response:
    """Stream the steps of a session: those after the last id, without gap or duplicate, then new ones; `id` is the seq.

    Without a last id, only new steps.
    """
    served.hub.check_room()
    if last_event_id is not None:
        if not (last_event_id.isascii() and last_event_id.isdigit()) or len(last_event_id) > 15:
            raise UsageError("Last-Event-ID must be the seq of a step")
        after = int(last_event_id)
    if "@" in ref:
        session = ref.partition("@")[0]
        hints = [f"GET /api/sessions/{session}/events", f"the steps up to it: GET /api/sessions/{ref}/steps"]
        raise UsageError("a stream goes on until the session ends, and a checkpoint does not", hints=hints)
    info = await asyncio.to_thread(served.rl.sessions.get, ref)
    known = min(after, info.seq) if after is not None else None
    return EventStream(served, request, served.hub.session(info.id, known))


class EventStream(Response):
    """Sends frames until the client disconnects, is too slow, or its token or login is no longer valid."""

    media_type = _MEDIA

    def __init__(self, served: Service, request: Request, frames: AsyncIterator[bytes]) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._served, self._request, self._frames = served, request, frames

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        sending = asyncio.create_task(self._send(send))
        gone = asyncio.create_task(_gone(receive))
        try:
            await asyncio.wait({sending, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sending, gone):
                task.cancel()
            await asyncio.gather(sending, gone, return_exceptions=True)
        if not sending.cancelled():
            sending.result()  # raises a fault of the server, for OuterMiddleware to log

    async def _send(self, send: Send) -> None:
        metrics: Metrics = self._served.metrics
        checked = time.monotonic()
        try:
            async for frame in self._frames:
                # A stream may outlive its token by days: a revoked one must not read on. With each heartbeat, not
                # with each frame, because it is a query.
                if time.monotonic() - checked >= self._served.settings.heartbeat_seconds or frame.startswith(b":"):
                    if not await asyncio.to_thread(self._served.guard.is_admitted, self._request):
                        return
                    checked = time.monotonic()
                async with asyncio.timeout(self._served.settings.send_seconds):
                    await send({"type": "http.response.body", "body": frame, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except TimeoutError:
            metrics.dropped.inc()
            LOG.info("dropped", extra={"path": path_of(self._request)[:200]})
        except RelightError as error:  # the response has begun: it ends here, and the client reconnects
            LOG.warning("stream", extra={"code": error.code, "said": str(error)[:200]})
        finally:
            await self._frames.aclose()  # type: ignore[attr-defined]


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue
