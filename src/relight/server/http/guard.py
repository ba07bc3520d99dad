"""Authentication, authorisation and cross-site protection, in one ASGI layer before every route.

    Host  ->  token or cookie  ->  rate  ->  Origin and Sec-Fetch-Site  ->  headers  ->  size  ->  JSON  ->  scope

A route that forgets to declare its scope is closed anyway. Only /healthz and /login are open. A web page cannot drive
the server: the cookie is SameSite=Strict, mutating and streaming requests from another site are refused by their
headers, a form cannot send JSON, there is no CORS, and a rebound host name is not in the list of allowed hosts.

Nor can another server on this machine. Browsers send a cookie of 127.0.0.1 to every port there, so a login is bound to
a random name below .localhost that only this server answers to, and that it reveals only to the bearer of a valid
launch code (docs/decisions/0052).
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import re
import secrets
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Final
from urllib.parse import urlsplit

from fastapi import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from relight.errors import RelightError, UsageError
from relight.ports.clock import Clock
from relight.server import tokens
from relight.server.http.logs import LOG
from relight.server.http.problems import Problem, answer_problem, path_of, problem_of
from relight.server.http.refusals import Forbidden, NotJson, NotSameSite, TooLarge, TooMany, Unauthorised
from relight.server.settings import LOOPBACK, ServerSettings
from relight.server.state import ServerState
from relight.server.tokens import Principal, Tokens

OPEN: Final = frozenset({"/healthz", "/login"})
_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})
_HOST: Final = re.compile(r"(?:[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")
_STREAMS: Final = "/events"
_ONCE: Final = ("authorization", "content-type", "idempotency-key", "if-match", "last-event-id", "origin")
"""headers that must not be repeated: a proxy and this server might pick different ones"""
_MAX_DIGITS: Final = 4300
_MAX_CONCURRENT_READS: Final = 6
"""per caller: as many connections as a browser opens"""
_MAX_BUCKETS: Final = 10_000
_LABEL: Final = "own_label"
_LABEL_BYTES: Final = 12
_NEW_LINK: Final = "a new link: relight serve --link"


class Guard:
    """The checks that a request must pass, in the order of the module's docstring. Each raises its refusal."""

    def __init__(self, tokens: Tokens, settings: ServerSettings, clock: Clock) -> None:
        self.tokens = tokens
        self.settings = settings
        self.cookie_name = f"relight-{settings.port}"
        self.own_name = f"{_label(tokens.state)}.localhost"
        """the secret host name of this server, under which browsers are logged in"""
        self._rates = RateLimiter(settings.rate_per_second, settings.rate_burst, clock)
        self._failures = RateLimiter(settings.failures_per_second, settings.failures_burst, clock)

    def check_host(self, request: Request) -> None:
        """NotSameSite unless the Host header is one of this server's names (stops DNS rebinding)."""
        given = request.headers.get("host", "")
        name = _host_name(given) if _HOST.fullmatch(given) else given
        known = name == self.own_name or name in self.settings.hosts
        if not known and not (self.settings.any_address and _is_address(name)):
            raise NotSameSite(f"unknown host name: {name[:100]!r}", hints=["relight serve --name HOST"])

    def accepts_cookies(self, request: Request) -> bool:
        """Whether a login cookie is valid at this Host: not where browsers send it to other local servers too."""
        name = _host_name(request.headers.get("host", ""))
        if name == self.own_name or self.settings.secure or self.settings.shared_host:
            return True
        return not (name in LOOPBACK or (_is_address(name) and ipaddress.ip_address(name).is_loopback))

    def own_address(self, request: Request, path: str) -> str:
        """URL of a path under this server's secret name, with the client's port: a tunnel may have changed it."""
        given = request.headers.get("host", "")
        port = given.rpartition("]")[2].rpartition(":")[2] if ":" in given.rpartition("]")[2] else ""
        return f"http://{self.own_name}{f':{port}' if port else ''}{path}"

    def admit(self, request: Request) -> Principal | None:
        """Authenticate and rate-limit; the principal, None on an open path. Unauthorised, TooMany."""
        address = request.client.host if request.client is not None else ""
        open_path = path_of(request) in OPEN
        principal = None if open_path else self._authenticate(request)
        if principal is None and not open_path:
            if not self._failures.take(address):
                raise TooMany("too many attempts without a valid token")
            raise Unauthorised("a token or a login is required", hints=[_NEW_LINK])
        # Streams are bounded by their number and not by this rate: after a restart of the server all clients
        # reconnect at the same moment, and a rate limit would turn most of them away for no reason.
        if path_of(request).endswith(_STREAMS) and not open_path:
            return principal
        if not self._rates.take(principal.name if principal is not None else f"@{address}"):
            raise TooMany("too many requests", hints=["wait a second and send fewer"])
        return principal

    def count_login(self, request: Request) -> None:
        """Rate-limit a login before its launch code is checked. TooMany."""
        if not self._failures.take(request.client.host if request.client is not None else ""):
            raise TooMany("too many login attempts")

    def check_site(self, request: Request, principal: Principal | None) -> None:
        """NotSameSite where a page of another site sent a mutating or streaming request."""
        mutating = request.method not in _READING
        if not mutating and not path_of(request).endswith(_STREAMS):
            return
        site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
        if site is not None and site not in ("same-origin", "none"):
            raise NotSameSite("cross-site request: sent by a page of another site")
        if origin is not None and not _same_origin(origin, request):
            raise NotSameSite("cross-origin request: the Origin header names another origin")
        # Every browser sends one of the two with a mutating request. A cookie without either is either forged or a
        # browser too old to protect its user, and scripts have tokens.
        if mutating and principal is not None and principal.by_cookie and origin is None and site is None:
            raise NotSameSite("a login cookie requires an Origin or Sec-Fetch-Site header")

    def check_headers(self, request: Request) -> None:
        """UsageError for duplicate headers; NotJson for an API call whose body is not declared as JSON.

        No form of a web page can send application/json without a CORS preflight, which is never granted."""
        duplicate = [name for name in _ONCE if len(request.headers.getlist(name)) > 1]
        if duplicate:
            raise UsageError(f"duplicate header: {', '.join(duplicate)}")
        # Request smuggling: a proxy that uses one and a server that uses the other see different requests.
        if {"content-length", "transfer-encoding"} <= {*request.headers}:
            raise UsageError("both Content-Length and Transfer-Encoding are given")
        if request.method not in _WITH_BODY or not path_of(request).startswith("/api/"):
            return
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise NotJson("the body must be JSON", hints=["add the header Content-Type: application/json"])

    def is_admitted(self, request: Request) -> bool:
        """Whether the token or login of an open stream is still valid."""
        return self._authenticate(request) is not None

    def _authenticate(self, request: Request) -> Principal | None:
        given = request.headers.get("authorization")
        if given is not None:
            kind, _, token = given.partition(" ")
            return self.tokens.bearer(token.strip()) if kind.lower() == "bearer" else None
        cookie = request.cookies.get(self.cookie_name)
        return self.tokens.cookie(cookie) if cookie and self.accepts_cookies(request) else None


class GuardMiddleware:
    """Applies the guard before routing, inside OuterMiddleware. The body is read whole and checked here."""

    def __init__(self, app: ASGIApp, guard: Guard) -> None:
        self._app, self._guard = app, guard
        self._reads = ConcurrencyLimit()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request, guard = Request(scope, receive), self._guard
        try:
            guard.check_host(request)
            principal = await asyncio.to_thread(guard.admit, request)
            guard.check_site(request, principal)
            guard.check_headers(request)
            body = await self._body(request, receive)
            if body is None:
                return  # the client disconnected in the middle of the body: half a request is not acted on
            asked = check_json(request, body)
        except RelightError as refused:
            LOG.info("refused", extra={"code": refused.code, "method": request.method, "path": path_of(request)[:200]})
            await answer_problem(request, problem_of(refused))(scope, receive, send)
            return
        except TimeoutError:
            late = Problem(status=408, code="RL-6000", detail="timed out while reading the request body")
            await answer_problem(request, late)(scope, receive, send)
            return
        scope.setdefault("state", {}).update(principal=principal, asked=asked)
        if principal is None or request.method not in _READING or path_of(request).endswith(_STREAMS):
            await self._app(scope, _replayed(body, receive), send)
            return
        async with self._reads.of(principal.name):
            await self._app(scope, _replayed(body, receive), send)

    async def _body(self, request: Request, receive: Receive) -> bytes | None:
        """The whole body, bounded in size and time; None if the client disconnected before its end."""
        max_bytes = self._guard.settings.body_bytes
        if request.method in _READING:
            return b""
        declared = request.headers.get("content-length", "0")
        # The declared length refuses early; the count below holds, because a chunked body declares none.
        if not declared.isdigit() or int(declared) > max_bytes:
            raise TooLarge(f"the body is larger than {max_bytes:,} bytes")
        parts, size = [], 0
        async with asyncio.timeout(self._guard.settings.body_seconds):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    return None
                part = message.get("body", b"")
                size += len(part)
                if size > max_bytes:
                    raise TooLarge(f"the body is larger than {max_bytes:,} bytes")
                parts.append(part)
                if not message.get("more_body"):
                    break
        return b"".join(parts)


def check_json(request: Request, body: bytes) -> str:
    """Check that the body is unambiguous JSON (UTF-8, no duplicate names, no NaN); returns its digest.

    The digest ignores whitespace and the order of names: it identifies a repeated request under an idempotency key."""
    if not body or request.method not in _WITH_BODY or not path_of(request).startswith("/api/"):
        return sha256(body).hexdigest()
    try:
        text = body.decode("utf-8-sig")
        read = json.loads(text, object_pairs_hook=_each_once, parse_constant=_no_number, parse_int=_bounded_int)
        return sha256(json.dumps(read, sort_keys=True).encode()).hexdigest()
    except (ValueError, RecursionError) as error:
        why = "nested too deeply" if isinstance(error, RecursionError) else str(error)[:200]
        raise UsageError(f"invalid JSON: {why}") from None


def _each_once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("duplicate name in an object")
    return found


def _no_number(name: str) -> object:
    raise ValueError(f"{name} is not a JSON number")


def _bounded_int(digits: str) -> int:
    # int() takes quadratic time in the number of digits.
    if len(digits) > _MAX_DIGITS:
        raise ValueError(f"a number has more than {_MAX_DIGITS} digits")
    return int(digits)


def _replayed(body: bytes, receive: Receive) -> Receive:
    """An ASGI receive that yields a body which was already read, then whatever comes next (a disconnect)."""
    sent = False

    async def again() -> Message:
        nonlocal sent
        if not sent:
            sent = True
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()

    return again


def principal_of(request: Request) -> Principal:
    """The authenticated principal of a request that passed the guard. Unauthorised."""
    found = getattr(request.state, "principal", None)
    if found is None:
        raise Unauthorised("a token or a login is required", hints=[_NEW_LINK])
    assert isinstance(found, Principal)
    return found


def body_digest_of(request: Request) -> str:
    """The digest of the body (see `check_json`) of a request that passed the guard."""
    return str(getattr(request.state, "asked", ""))


def needs(scope: tokens.Scope) -> Callable[[Request], Principal]:
    """A FastAPI dependency that requires at least this scope. Forbidden."""

    def check(request: Request) -> Principal:
        principal = principal_of(request)
        if not principal.may(scope):
            hints = [f"relight token add NAME --scope {scope}"]
            raise Forbidden(f"scope {scope} required; {principal.name} has {principal.scope}", hints=hints)
        return principal

    return check


class ConcurrencyLimit:
    """Bounds the concurrent reads of each caller; further reads of the same caller wait, other callers do not.

    Without it one client with forty parallel requests would occupy the server's whole thread pool."""

    def __init__(self) -> None:
        self._slots: dict[str, tuple[asyncio.Semaphore, int]] = {}

    @asynccontextmanager
    async def of(self, who: str) -> AsyncIterator[None]:
        """Hold one of the caller's slots; the caller's entry is dropped with its last request."""
        slots, number = self._slots.get(who) or (asyncio.Semaphore(_MAX_CONCURRENT_READS), 0)
        self._slots[who] = slots, number + 1
        try:
            async with slots:
                yield
        finally:
            slots, number = self._slots[who]
            if number == 1:
                del self._slots[who]
            else:
                self._slots[who] = slots, number - 1


class RateLimiter:
    """Token buckets, one per caller. Their number is bounded: the least recently used is evicted."""

    def __init__(self, per_second: float, burst: int, clock: Clock) -> None:
        self._per_us, self._burst, self._clock = per_second / 1e6, burst, clock
        self._buckets: OrderedDict[str, tuple[float, int]] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, who: str) -> bool:
        """Take one token; False if the caller has none left."""
        now = self._clock.instant().us
        with self._lock:
            left, since = self._buckets.pop(who, (float(self._burst), now))
            left = min(self._burst, left + (now - since) * self._per_us)
            allowed = left >= 1.0
            self._buckets[who] = (left - 1.0 if allowed else left, now)
            if len(self._buckets) > _MAX_BUCKETS:
                self._buckets.popitem(last=False)
        return allowed


def _label(state: ServerState) -> str:
    """The random part of this server's name; stored, so that an open page survives a restart."""
    with state.transaction():
        found = state.meta(_LABEL)
        if found is None:
            found = f"r{secrets.token_hex(_LABEL_BYTES)}"
            state.set_meta(_LABEL, found)
    return found


def _host_name(header: str) -> str:
    """The Host header without port; an IPv6 address without brackets."""
    if header.startswith("["):
        return header[1:].partition("]")[0].lower()
    return header.partition(":")[0].lower()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _same_origin(origin: str, request: Request) -> bool:
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and parts.netloc.lower() == request.headers.get("host", "").lower()
