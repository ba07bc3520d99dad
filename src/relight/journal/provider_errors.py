"""What an exception of a model call means: may the same request succeed later, and when?

Judged by shape, because no SDK is imported: HTTP status, the provider's own error code, names of classes, type. Known
are anthropic, openai, httpx, requests, aiohttp, botocore, google-genai, google-api-core, gRPC and the standard library.
Anything unknown is not transient.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping
from typing import Any, Final

from relight.errors import InvalidMessage

_STATUS: Final = frozenset({408, 409, 425, 429})
_PERMANENT_STATUS: Final = frozenset({501, 505, 508, 510, 511})
_NAMES: Final = frozenset(
    {
        # anthropic, openai
        "APIConnectionError", "APITimeoutError", "RateLimitError", "InternalServerError", "OverloadedError",
        "ServiceUnavailableError", "DeadlineExceededError",
        # httpx
        "NetworkError", "TimeoutException", "RemoteProtocolError", "ProxyError",
        # requests, urllib3, http.client, aiohttp
        "ConnectionError", "Timeout", "ChunkedEncodingError", "ProtocolError", "IncompleteRead",
        "ClientConnectionError", "ClientPayloadError",
        # socket, ssl
        "gaierror", "SSLEOFError", "SSLZeroReturnError",
        # botocore, google-api-core
        "EndpointConnectionError", "ConnectionClosedError", "HTTPClientError", "ServiceUnavailable", "TooManyRequests",
    }
)  # fmt: skip
_PERMANENT_NAMES: Final = frozenset({"SSLCertVerificationError"})
_CODES: Final = frozenset(
    {
        "overloadederror", "apierror", "ratelimiterror", "timeouterror", "servererror", "ratelimitexceeded",
        "vectorstoretimeout", "internalerror",
        "throttlingexception", "throttling", "toomanyrequestsexception", "serviceunavailableexception",
        "serviceunavailable", "internalserverexception", "internalfailure", "modelnotreadyexception",
        "modeltimeoutexception", "modelstreamerrorexception", "requesttimeout", "requesttimeoutexception", "slowdown",
        "unavailable", "resourceexhausted", "deadlineexceeded", "internal", "aborted",
    }
)  # fmt: skip
"""codes of providers in lower case, without underscores"""
_CODES_OF_400: Final = frozenset({"throttlingexception", "throttling", "requesttimeout", "requesttimeoutexception"})
"""codes of AWS that come with the status of a wrong request"""
_PERMANENT_CODES: Final = frozenset(
    {
        "insufficientquota", "billinghardlimitreached", "billingnotactive", "accessterminated",
        "servicequotaexceededexception", "billingerror", "creditbalancetoolow",
    }
)  # fmt: skip
"""codes that come with a transient status and do not pass by waiting"""
_ERRNOS: Final = frozenset({errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.EHOSTDOWN, errno.ETIMEDOUT})
_CAUSES: Final = 5
"""how many causes of an exception are considered"""


class FailedReply(InvalidMessage):
    """A response that says that it failed, instead of an HTTP status that does."""

    def __init__(self, failure: Mapping[str, Any]) -> None:
        code = failure.get("code") or failure.get("type") or "unknown"
        says = f"the provider's response failed ({code}): {failure.get('message') or 'it says no more'}"
        super().__init__(str(code), says=says)
        self.body = {"error": dict(failure)}


class StreamEnded(ConnectionError):
    """A stream that ended before its provider said that the reply was whole."""

    def __init__(self) -> None:
        super().__init__("the stream of the reply ended before the reply was whole; nothing of it was kept")


def is_transient(error: BaseException) -> bool:
    """Whether the same request may succeed later."""
    codes = {_word(code) for code in _codes(error)}
    if codes & _PERMANENT_CODES or any(type(one).__name__ in _PERMANENT_NAMES for one in _chain(error)):
        return False
    asked = _headers(error).get("x-should-retry")
    if asked in ("true", "false"):
        return asked == "true"
    status = _status(error)
    if status is not None and status >= 400:
        if status == 400 and codes & _CODES_OF_400:
            return True
        return status in _STATUS or (status >= 500 and status not in _PERMANENT_STATUS)
    if codes & _CODES:
        return True
    return any(map(_is_transient_kind, _chain(error)))


def retry_after_seconds(error: BaseException, now: float) -> float | None:
    """How long the provider asks to wait; None if it does not say. `now` in seconds since 1970."""
    headers = _headers(error)
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            return max(0.0, float(headers[name]) * unit)
        except (KeyError, ValueError):
            pass  # absent, or a date
    from email.utils import mktime_tz, parsedate_tz  # imported late: it would be a twentieth of a program's start

    date = parsedate_tz(headers.get("retry-after"))
    if date is not None:
        return max(0.0, mktime_tz(date) - now)
    return next(map(_seconds, _retry_infos(error)), None)


def _is_transient_kind(error: BaseException) -> bool:
    if isinstance(error, ConnectionError | TimeoutError):
        return True
    if isinstance(error, OSError) and error.errno in _ERRNOS:
        return True
    return any(kind.__name__ in _NAMES for kind in type(error).__mro__)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The exception and its causes. Not its context: what it was handling says nothing about it."""
    found: BaseException | None = error
    for _ in range(_CAUSES):
        if found is None:
            return
        yield found
        reason = getattr(found, "reason", None)  # of urllib.error.URLError
        found = found.__cause__ or (reason if isinstance(reason, BaseException) else None)


def _status(error: BaseException) -> int | None:
    response = getattr(error, "response", None)
    given = [getattr(error, name, None) for name in ("status_code", "code", "status")]
    given.append(getattr(response, "status_code", None))
    if isinstance(response, Mapping):  # botocore
        given.append(_at(response, "ResponseMetadata", "HTTPStatusCode"))
    return next((int(one) for one in given if isinstance(one, int) and not isinstance(one, bool)), None)


def _codes(error: BaseException) -> Iterator[str]:
    """The provider's own words for what went wrong."""
    body, response = getattr(error, "body", None), getattr(error, "response", None)
    details = getattr(error, "details", None)  # google-genai
    inner = [_at(one, "error") for one in (body, details)]
    found = [getattr(error, name, None) for name in ("code", "type", "status")]
    found += [_at(one, name) for one in (body, *inner) for name in ("code", "type", "status")]
    found += [_at(response, "Error", "Code"), _grpc_code(error)]
    yield from (one for one in found if isinstance(one, str))


def _grpc_code(error: BaseException) -> Any:
    """The name of a gRPC status, as `UNAVAILABLE`; there `code` is a method."""
    code = getattr(error, "code", None)
    is_grpc = any(kind.__module__.startswith("grpc") for kind in type(error).__mro__)
    return getattr(code(), "name", None) if is_grpc and callable(code) else None


def _word(code: str) -> str:
    return code.replace("_", "").replace("-", "").lower()


def _headers(error: BaseException) -> dict[str, str]:
    response = getattr(error, "response", None)
    given = getattr(response, "headers", None) or getattr(error, "headers", None)
    if given is None:
        given = _at(response, "ResponseMetadata", "HTTPHeaders")
    try:
        return {str(name).lower(): str(one) for name, one in given.items()}
    except (AttributeError, TypeError):
        return {}


def _retry_infos(error: BaseException) -> Iterator[str]:
    """google.rpc.RetryInfo, as in `"retryDelay": "34s"`."""
    for holder in (getattr(error, "details", None), getattr(error, "body", None)):
        listed = _at(holder, "error", "details")
        for one in listed if isinstance(listed, list) else ():
            delay = _at(one, "retryDelay")
            if isinstance(delay, str) and delay.removesuffix("s").replace(".", "", 1).isdigit():
                yield delay


def _seconds(delay: str) -> float:
    return float(delay.removesuffix("s"))


def _at(value: Any, *path: str) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value
