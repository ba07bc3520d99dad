"""Errors of requests that are refused before they reach any session: RL-6xxx, a branch of the tree in errors.py.

RequestRefused
├─ Unauthorised · Forbidden · NotSameSite     authentication, scope, origin
├─ TooLarge · TooMany · NotJson               size, rate, content type
├─ KeyReused · KeyBusy                        idempotency key
└─ Stale                                      If-Match
"""

from __future__ import annotations

from relight.errors import RelightError


class RequestRefused(RelightError):
    """The server refused the request before it reached any session."""

    code = "RL-6000"
    exit_code = 4
    http_status = 400


class Unauthorised(RequestRefused):
    """The token is missing, unknown or revoked, or the login has expired."""

    code = "RL-6001"
    http_status = 401


class Forbidden(RequestRefused):
    """The token is valid, but its scope is too small."""

    code = "RL-6002"
    http_status = 403


class NotSameSite(RequestRefused):
    """The request comes from a page of another site, or under an unknown host name."""

    code = "RL-6003"
    http_status = 403


class TooLarge(RequestRefused):
    """The body is larger than the server accepts."""

    code = "RL-6004"
    http_status = 413


class TooMany(RequestRefused):
    """Too many requests, streams or concurrent changes; try again later."""

    code = "RL-6005"
    http_status = 429


class NotJson(RequestRefused):
    """The body must be sent as application/json."""

    code = "RL-6006"
    http_status = 415


class KeyReused(RequestRefused):
    """The idempotency key was used for another request."""

    code = "RL-6007"
    http_status = 422


class Stale(RequestRefused):
    """The session has changed since the response with the ETag of `If-Match`; nothing was done."""

    code = "RL-6009"
    http_status = 412


class KeyBusy(RequestRefused):
    """The request under this idempotency key is still running, or the server died during it: outcome unknown."""

    code = "RL-6008"
    http_status = 409
