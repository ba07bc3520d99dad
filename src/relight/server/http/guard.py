"""The guard: who may do what, from where. It stands before every route, so a route that forgot it is closed anyway.

    Host  ->  rate  ->  token or cookie  ->  Origin and Sec-Fetch-Site  ->  size  ->  JSON  ->  the route's own scope

Open are /healthz and /login alone. A web page cannot drive the server: the cookie is SameSite=Strict, a mutating or
streaming request of another site is refused by its own headers, a form cannot send JSON, there is no CORS, and a host
name that was bound to this address afterwards is not in the list.

Nor can another server of this machine. A browser sends a cookie of 127.0.0.1 to every port there, so a login never
lives at an address that others share: it is kept under a random name below .localhost, which this server alone answers
to and tells nobody who has no valid launch code (docs/decisions/0052).
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
from typing import Annotated, Final
from urllib.parse import urlsplit

from fastapi import Depends, Request
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
"""headers of which a second one would leave it open which is meant"""
_MAX_DIGITS: Final = 4300
_READS_AT_ONCE: Final = 6
"""of one caller: as many as a browser opens connections"""
_MAX_BUCKETS: Final = 10_000
_LABEL: Final = "own_label"
_LABEL_BYTES: Final = 12
_NEW_LINK: Final = "a new link: relight serve --link"


class Guard:
    """What a request is measured by."""

    def __init__(self, tokens: Tokens, settings: ServerSettings, clock: Clock) -> None:
        self.tokens = tokens
        self.settings = settings
        self.cookie_name = f"relight-{settings.port}"
        self.own_name = f"{_label(tokens.state)}.localhost"
        """the host name of this server alone, under which browsers are logged in; a secret"""
        self._rates = Rates(settings.rate_per_second, settings.rate_burst, clock)
        self._failures = Rates(settings.failures_per_second, settings.failures_burst, clock)

    def check_host(self, request: Request) -> None:
        """Addressed by a name that is ours."""
        given = request.headers.get("host", "")
        name = _host_name(given) if _HOST.fullmatch(given) else given
        known = name == self.own_name or name in self.settings.hosts
        if not known and not (self.settings.any_address and _is_address(name)):
            raise NotSameSite(f"this server does not answer to the host name {name[:100]!a}")

    def keeps_logins(self, request: Request) -> bool:
        """Does a cookie count here? Not at a host that other servers of this machine share: they are sent it too."""
        name = _host_name(request.headers.get("host", ""))
        if name == self.own_name or self.settings.secure or self.settings.shared_host:
            return True
        return not (name in LOOPBACK or (_is_address(name) and ipaddress.ip_address(name).is_loopback))

    def own_address(self, request: Request, path: str) -> str:
        """A path of this server under its own name; by the port that the caller uses, which a tunnel may have moved."""
        given = request.headers.get("host", "")
        port = given.rpartition("]")[2].rpartition(":")[2] if ":" in given.rpartition("]")[2] else ""
        return f"http://{self.own_name}{f':{port}' if port else ''}{path}"

    def admit(self, request: Request) -> Principal | None:
        """Whoever stands behind the request; None on an open path. Unauthorised, TooMany."""
        address = request.client.host if request.client is not None else ""
        open_path = path_of(request) in OPEN
        principal = None if open_path else self._known(request)
        if principal is None and not open_path:
            if not self._failures.take(address):
                raise TooMany("too many attempts without a valid token")
            raise Unauthorised("a token or a login is needed", hints=[_NEW_LINK])
        if path_of(request).endswith(_STREAMS) and not open_path:
            return principal  # bounded by their number: after a restart all of them come back at once
        if not self._rates.take(principal.name if principal is not None else f"@{address}"):
            raise TooMany("too many requests", hints=["wait a second, then go on more slowly"])
        return principal

    def attempt(self, request: Request) -> None:
        """Before a launch code is looked at."""
        if not self._failures.take(request.client.host if request.client is not None else ""):
            raise TooMany("too many attempts to log in")

    def check_site(self, request: Request, principal: Principal | None) -> None:
        """Not from a page of another site."""
        mutating = request.method not in _READING
        if not mutating and not path_of(request).endswith(_STREAMS):
            return
        site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
        if site is not None and site not in ("same-origin", "none"):
            raise NotSameSite("a page of another site sent this request")
        if origin is not None and not _same_origin(origin, request):
            raise NotSameSite("the request comes from another origin")
        if mutating and principal is not None and principal.by_cookie and origin is None and site is None:
            raise NotSameSite("a browser would have said where this comes from")

    def check_form(self, request: Request) -> None:
        """A call that changes something is JSON: no form of a web page can send that. And it says one thing."""
        twice = [name for name in _ONCE if len(request.headers.getlist(name)) > 1]
        if twice or {"content-length", "transfer-encoding"} <= {*request.headers}:
            raise UsageError(f"said twice: {', '.join(twice) or 'how long the request is'}")
        if request.method not in _WITH_BODY or not path_of(request).startswith("/api/"):
            return
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise NotJson("send JSON", hints=["add the header Content-Type: application/json"])

    def still(self, request: Request) -> bool:
        """May whoever opened a stream look any longer?"""
        return self._known(request) is not None

    def _known(self, request: Request) -> Principal | None:
        given = request.headers.get("authorization")
        if given is not None:
            kind, _, token = given.partition(" ")
            return self.tokens.bearer(token.strip()) if kind.lower() == "bearer" else None
        cookie = request.cookies.get(self.cookie_name)
        return self.tokens.cookie(cookie) if cookie and self.keeps_logins(request) else None


class Gate:
    """The guard as the outermost layer: what it refuses never reaches a route."""

    def __init__(self, app: ASGIApp, guard: Guard) -> None:
        self._app, self._guard = app, guard
        self._turns = ConcurrencyLimit()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request, guard = Request(scope, receive), self._guard
        try:
            guard.check_host(request)
            principal = await asyncio.to_thread(guard.admit, request)
            guard.check_site(request, principal)
            guard.check_form(request)
            body = await self._body(request, receive)
            if body is None:
                return  # whoever asked is gone, and what they asked is not known
            asked = check_json(request, body)
        except RelightError as refused:
            LOG.info("refused", extra={"code": refused.code, "method": request.method, "path": path_of(request)[:200]})
            await answer_problem(request, problem_of(refused))(scope, receive, send)
            return
        except TimeoutError:
            late = Problem(status=408, code="RL-6000", detail="the request did not arrive in time")
            await answer_problem(request, late)(scope, receive, send)
            return
        scope.setdefault("state", {}).update(principal=principal, asked=asked)
        if principal is None or request.method not in _READING or path_of(request).endswith(_STREAMS):
            await self._app(scope, _replayed(body, receive), send)
            return
        async with self._turns.of(principal.name):
            await self._app(scope, _replayed(body, receive), send)

    async def _body(self, request: Request, receive: Receive) -> bytes | None:
        """All of it, within a bound, before anybody acts on the beginning; None where it broke off."""
        most = self._guard.settings.body_bytes
        if request.method in _READING:
            return b""
        declared = request.headers.get("content-length", "0")
        if not declared.isdigit() or int(declared) > most:
            raise TooLarge(f"more than {most:,} bytes", hints=["send less"])
        parts, size = [], 0
        async with asyncio.timeout(self._guard.settings.body_seconds):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    return None
                part = message.get("body", b"")
                size += len(part)
                if size > most:
                    raise TooLarge(f"more than {most:,} bytes", hints=["send less"])
                parts.append(part)
                if not message.get("more_body"):
                    break
        return b"".join(parts)


def check_json(request: Request, body: bytes) -> str:
    """A body that every reader reads the same: UTF-8, no name twice in an object, no number that is none. Its digest,
    the same for the same document however it is spaced: by it a repeated request is known."""
    if not body or request.method not in _WITH_BODY or not path_of(request).startswith("/api/"):
        return sha256(body).hexdigest()
    try:
        text = body.decode("utf-8-sig")
        read = json.loads(text, object_pairs_hook=_each_once, parse_constant=_no_number, parse_int=_short_enough)
        return sha256(json.dumps(read, sort_keys=True).encode()).hexdigest()
    except (ValueError, RecursionError) as error:
        why = "too deep" if isinstance(error, RecursionError) else str(error)[:200]
        raise UsageError(f"this is not JSON: {why}") from None


def _each_once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands twice in an object")
    return found


def _no_number(name: str) -> object:
    raise ValueError(f"{name} is no number")


def _short_enough(digits: str) -> int:
    """Reading one takes the square of its length."""
    if len(digits) > _MAX_DIGITS:
        raise ValueError(f"a number has more than {_MAX_DIGITS} digits")
    return int(digits)


def _replayed(body: bytes, receive: Receive) -> Receive:
    sent = False

    async def again() -> Message:
        nonlocal sent
        if not sent:
            sent = True
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()

    return again


def principal_of(request: Request) -> Principal:
    """Who stands behind a request that passed the gate."""
    found = getattr(request.state, "principal", None)
    if found is None:
        raise Unauthorised("a token or a login is needed", hints=[_NEW_LINK])
    assert isinstance(found, Principal)
    return found


def asked_of(request: Request) -> str:
    """The digest of everything that a request which passed the gate brought along."""
    return str(getattr(request.state, "asked", ""))


Who = Annotated[Principal, Depends(principal_of)]


def needs(scope: tokens.Scope) -> Callable[[Request], Principal]:
    """A dependency: at least this scope."""

    def check(request: Request) -> Principal:
        principal = principal_of(request)
        if not principal.may(scope):
            hints = [f"relight token add NAME --scope {scope}"]
            raise Forbidden(f"this needs the scope {scope}; {principal.name} has {principal.scope}", hints=hints)
        return principal

    return check


class ConcurrencyLimit:
    """So many readings of one caller are at work at once; the others of this caller wait, and nobody else for them.

    Whoever asks forty times at once would else have every thread of the server, and the owner none."""

    def __init__(self) -> None:
        self._slots: dict[str, tuple[asyncio.Semaphore, int]] = {}

    @asynccontextmanager
    async def of(self, who: str) -> AsyncIterator[None]:
        """One reading; forgotten when this caller has none left."""
        slots, number = self._slots.get(who) or (asyncio.Semaphore(_READS_AT_ONCE), 0)
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


class Rates:
    """Token buckets, one a caller; bounded, the one unused longest goes."""

    def __init__(self, per_second: float, burst: int, clock: Clock) -> None:
        self._per_us, self._burst, self._clock = per_second / 1e6, burst, clock
        self._buckets: OrderedDict[str, tuple[float, int]] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, who: str) -> bool:
        """Is there one left?"""
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
    """The random part of this server's own name: made once, so that an open page lives through a restart."""
    with state.together():
        found = state.meta(_LABEL)
        if found is None:
            found = f"r{secrets.token_hex(_LABEL_BYTES)}"
            state.remember(_LABEL, found)
    return found


def _host_name(header: str) -> str:
    """Without the port; an address of version 6 without its brackets."""
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
    """The page's own address is the one it talks to."""
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and parts.netloc.lower() == request.headers.get("host", "").lower()
