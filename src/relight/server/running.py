"""The application on a socket, until it is asked to end: streams are ended first, so that nobody waits for them."""

from __future__ import annotations

import socket
from typing import Any, Final

import uvicorn
from fastapi import FastAPI

_GRACE_SECONDS: Final = 5


class Running(uvicorn.Server):
    """One process, one loop."""

    def __init__(self, app: FastAPI, **more: Any) -> None:
        super().__init__(
            uvicorn.Config(
                app,
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
