"""What the server refuses before any session is touched: a branch of the tree in errors.py, RL-6xxx.

RequestRefused
├─ Unauthorised · Forbidden · NotSameSite     who asks, and from where
├─ TooLarge · TooMany · NotJson               how it is asked
└─ KeyReused · KeyBusy                        what was asked before under the same key
"""

from __future__ import annotations

from relight.errors import RelightError


class RequestRefused(RelightError):
    """The server refused the request before it reached any session."""

    code = "RL-6000"
    exit_code = 4
    http_status = 400


class Unauthorised(RequestRefused):
    """No token, or one that is not known (any more)."""

    code = "RL-6001"
    http_status = 401


class Forbidden(RequestRefused):
    """The token is known, and its scope is too small."""

    code = "RL-6002"
    http_status = 403


class NotSameSite(RequestRefused):
    """A page of another site, or a host name that is not this server's, stands behind the request."""

    code = "RL-6003"
    http_status = 403


class TooLarge(RequestRefused):
    """The body is larger than this route takes."""

    code = "RL-6004"
    http_status = 413


class TooMany(RequestRefused):
    """More requests, or more streams, than the server takes at once."""

    code = "RL-6005"
    http_status = 429


class NotJson(RequestRefused):
    """A call that changes something says what it means in JSON, which no form of a web page can."""

    code = "RL-6006"
    http_status = 415


class KeyReused(RequestRefused):
    """The idempotency key was used for another request."""

    code = "RL-6007"
    http_status = 422


class KeyBusy(RequestRefused):
    """The request under this idempotency key has no answer yet, or lost it with a server that died."""

    code = "RL-6008"
    http_status = 409
