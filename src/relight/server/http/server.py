"""The listening server: uvicorn with our connection class and our order of shutdown."""

from __future__ import annotations

import asyncio
import socket
from typing import Any, Final

import h11
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from relight.server.http.frame import HEADERS
from relight.server.http.problems import Problem
from relight.server.http.refusals import RequestRefused

_GRACE_SECONDS: Final = 5


class HttpServer(uvicorn.Server):
    """uvicorn in one process with one event loop; started by `relight serve`."""

    def __init__(self, app: FastAPI, **more: Any) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=Connection,
                ws="none",  # the guard checks HTTP requests only, so nothing else may reach the application
                proxy_headers=False,  # failures are counted by peer address; a client can forge X-Forwarded-For
                log_config=None,
                access_log=False,
                server_header=False,
                lifespan="on",
                timeout_graceful_shutdown=_GRACE_SECONDS,
                **more,
            )
        )
        self._hub = app.state.service.hub

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the event streams, then stop as uvicorn does: accept no more, wait for requests being answered."""
        # uvicorn waits for every open response. A stream has no end of its own, so it would wait the whole grace.
        self._hub.stop()
        await super().shutdown(sockets)


class Connection(H11Protocol):
    """A client connection that times out slow requests and answers malformed ones with a problem document.

    uvicorn has no timeout for an incomplete request head, and answers what is not HTTP with plain text."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._update_timer()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._update_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_timer()
        super().connection_lost(exc)

    def _update_timer(self) -> None:
        # Between two responses a request head has to arrive in time. While a request is being answered there is no
        # bound here: the guard has its own for the body, and a stream stays open for days. The timer is not restarted
        # by further bytes, or a client that drips one byte a second would hold the connection forever.
        if self.cycle is not None and not self.cycle.response_complete:
            self._cancel_timer()
        elif self._timer is None:
            seconds = self.config.app.state.service.settings.head_seconds  # type: ignore[union-attr]
            self._timer = self.loop.call_later(seconds, self._time_out)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _time_out(self) -> None:
        self._timer = None
        self._refuse(Problem(status=408, code=RequestRefused.code, detail="timed out while reading the request"))

    def _should_upgrade(self) -> bool:
        return False

    def send_400_response(self, msg: str) -> None:
        self._refuse(Problem(status=400, code=RequestRefused.code, detail="malformed HTTP request"))

    def _refuse(self, problem: Problem) -> None:
        """Answer with a problem if no response has begun, and close the connection."""
        # A pipelined request before the malformed one may still be running: report a disconnect to it, so that the
        # guard drops it instead of acting on a request of a client that cannot be trusted to speak HTTP.
        if self.cycle is not None:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            response = problem.response()
            headers = {**HEADERS, **response.headers, "connection": "close"}
            started = h11.Response(status_code=problem.status, headers=list(headers.items()))
            for event in (started, h11.Data(data=bytes(response.body)), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()
