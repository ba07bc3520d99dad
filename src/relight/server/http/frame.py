"""The outermost ASGI layer: security headers, HEAD, request log, metrics, trace span, and the handler of last resort.

A HEAD is a GET whose body is dropped here, so that every route that can be read answers it, with the same headers. Only
/login does not: it changes something (it redeems a code), and programs that preview links ask with HEAD.
"""

from __future__ import annotations

import time
from base64 import b64encode
from hashlib import sha256
from typing import Final

from fastapi import Request
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from relight.server.http.logs import LOG
from relight.server.http.problems import Problem, answer_problem
from relight.server.metrics import Metrics
from relight.telemetry.spans import span

PLAIN_STYLE: Final = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:44rem;margin:12vh auto;padding:0 1rem}"
    "pre{padding:.6rem 1rem;border:1px solid;border-radius:6px;overflow:auto}"
)
"""of a page for who is not let in, and gets no other file; named in the policy by its digest"""


def _digest(text: str) -> str:
    return b64encode(sha256(text.encode()).digest()).decode()


CSP: Final = (
    f"default-src 'none'; script-src 'self'; style-src 'self' 'sha256-{_digest(PLAIN_STYLE)}';"
    " img-src 'self' data:; connect-src 'self';"
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


class OuterMiddleware:
    """Wraps everything, the guard included, so that a refused request has its headers, metrics and span too.

    An exception that no handler took becomes a problem document without detail; the log has the traceback."""

    def __init__(self, app: ASGIApp, metrics: Metrics, secure: bool) -> None:
        self._app, self._metrics = app, metrics
        self._headers = HEADERS | (_TLS_ONLY if secure else {})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.monotonic(), 0
        method, is_head = scope["method"], scope["method"] == "HEAD" and scope["path"] != "/login"
        if is_head:
            scope = {**scope, "method": "GET"}

        is_over = False

        async def send_with_headers(message: Message) -> None:
            nonlocal status, is_over
            if is_over:
                return
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in self._headers.items():
                    headers.setdefault(name, value)
                headers.setdefault("Cache-Control", "no-store")
            elif is_head:
                message, is_over = {"type": "http.response.body"}, True
            await send(message)

        with span(method, {"http.request.method": method, "url.path": scope["path"]}) as traced:
            try:
                await self._app(scope, receive, send_with_headers)
            except Exception:  # the last resort: no client sees a traceback, and one request does not end the server
                LOG.exception("fault", extra={"method": scope["method"], "path": scope["path"][:200]})
                # Once the status line is sent no problem document can follow it. Raising makes uvicorn close the
                # connection, so that the client sees a broken response and not a complete one.
                if status:
                    raise
                fault = Problem(status=500, code="RL-0000", detail="internal server error; see the server's log")
                await answer_problem(Request(scope, receive), fault)(scope, receive, send_with_headers)
            finally:
                # The route's template, not the path: paths hold ids, and each would be a metric series of its own.
                route = getattr(scope.get("route"), "path", "none")
                traced.set("http.route", route)
                traced.set("http.response.status_code", status)
                seconds = time.monotonic() - began
                self._metrics.request(method, route, status, seconds)
                fields = {"method": method, "route": route, "status": status, "ms": round(seconds * 1e3, 1)}
                LOG.debug("request", extra=fields)
