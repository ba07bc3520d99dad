"""The application on a socket, until it is asked to end: streams are ended first, so that nobody waits for them.

What cannot be read as HTTP never becomes a request; whoever sent it gets a problem document nevertheless. Who begins a
request and does not go on, or says nothing at all, is not waited for.
"""

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


class Running(uvicorn.Server):
    """One process, one loop."""

    def __init__(self, app: FastAPI, **more: Any) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=Connection,
                ws="none",  # there is none to talk to, and the guard stands before requests
                proxy_headers=False,  # a header does not say where somebody is: failures are counted by address
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
        """End the streams, then wait for what is being answered."""
        self._hub.stop()
        await super().shutdown(sockets)


class Connection(H11Protocol):
    """One client."""

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Somebody is there."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Somebody says something."""
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Somebody left."""
        self._forget()
        super().connection_lost(exc)

    def _watch(self) -> None:
        """Between two answers a request has to arrive in time; within one the guard looks at the clock itself."""
        if self.cycle is not None and not self.cycle.response_complete:
            self._forget()
        elif self._late is None:
            seconds = self.config.app.state.service.settings.head_seconds  # type: ignore[union-attr]
            self._late = self.loop.call_later(seconds, self._too_late)

    def _forget(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _too_late(self) -> None:
        self._late = None
        self._refuse(Problem(status=408, code=RequestRefused.code, detail="the request did not arrive in time"))

    def _should_upgrade(self) -> bool:
        """There is nothing else to talk; who asks for it gets an answer in HTTP."""
        return False

    def send_400_response(self, msg: str) -> None:
        """What was sent is no HTTP, or breaks off being it."""
        self._refuse(Problem(status=400, code=RequestRefused.code, detail="this is not an HTTP request"))

    def _refuse(self, problem: Problem) -> None:
        """Say so, where no answer has begun; whatever was asked before in the same breath is not acted on."""
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
