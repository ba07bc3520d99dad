"""Around every answer: security headers, the log line, the request's metrics and span, and the last resort.

Nothing that goes wrong inside leaves as more than a problem document; what it was stands in the log.
"""

from __future__ import annotations

import time
from typing import Final

from fastapi import Request
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from relight.server.http.logs import LOG
from relight.server.http.problems import Problem, answer_problem
from relight.server.http.tracing import span
from relight.server.metrics import Metrics

CSP: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';"
    " font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {
    "Content-Security-Policy": CSP,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}
_TLS_ONLY: Final = {"Strict-Transport-Security": "max-age=31536000"}


class Frame:
    """The outermost layer."""

    def __init__(self, app: ASGIApp, metrics: Metrics, secure: bool) -> None:
        self._app, self._metrics = app, metrics
        self._headers = HEADERS | (_TLS_ONLY if secure else {})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.monotonic(), 0

        async def framed(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in self._headers.items():
                    headers.setdefault(name, value)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        with span(f"{scope['method']}", {"http.request.method": scope["method"], "url.path": scope["path"]}) as traced:
            try:
                await self._app(scope, receive, framed)
            except Exception:  # the last resort: no caller sees a traceback, and one request does not end the server
                LOG.exception("fault", extra={"method": scope["method"], "path": scope["path"][:200]})
                if status:
                    raise
                fault = Problem(status=500, code="RL-0000", detail="a fault of the server; its log says more")
                await answer_problem(Request(scope, receive), fault)(scope, receive, framed)
            finally:
                route = getattr(scope.get("route"), "path", "none")
                traced.set("http.route", route)
                traced.set("http.response.status_code", status)
                seconds = time.monotonic() - began
                self._metrics.request(scope["method"], route, status, seconds)
                said = {"method": scope["method"], "route": route, "status": status, "ms": round(seconds * 1e3, 1)}
                LOG.debug("request", extra=said)
