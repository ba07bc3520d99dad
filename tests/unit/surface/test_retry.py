"""`Retry`: what passes is asked for again, after the time that the provider names; what does not pass is raised."""

from __future__ import annotations

import errno
import math
import socket
import ssl
from typing import Any
from urllib.error import HTTPError, URLError

import pytest

import relight
from relight.errors import UsageError
from relight.journal.provider_errors import is_transient, retry_after_seconds
from tests.support.simulation import Simulation

DONE = {"role": "assistant", "content": "done"}


class Response:
    def __init__(self, status: int, headers: dict[str, str] | None = None) -> None:
        self.status_code, self.headers = status, headers or {}


class StatusError(Exception):
    """As anthropic's and openai's APIStatusError, and httpx's HTTPStatusError, which has the response alone."""

    def __init__(self, status: int, headers: dict[str, str] | None = None, body: Any = None, code: Any = None) -> None:
        super().__init__(f"status {status}")
        self.response, self.body, self.code = Response(status, headers), body, code


class ClientError(Exception):
    """As botocore's."""

    def __init__(self, code: str, status: int) -> None:
        super().__init__(code)
        self.response = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status, "HTTPHeaders": {}}}


class GoogleError(Exception):
    """As google-genai's APIError."""

    def __init__(self, code: int, status: str, details: Any = None) -> None:
        super().__init__(status)
        self.code, self.status, self.details = code, status, details


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


class NetworkError(Exception):
    """The parent of httpx's ReadError, WriteError, ConnectError and CloseError."""


class ReadError(NetworkError):
    pass


class APIConnectionError(Exception):
    pass


PASSES: dict[str, Exception] = {
    **{f"status {code}": StatusError(code) for code in (408, 409, 425, 429, 500, 502, 503, 504, 520, 529)},
    "reset": ConnectionResetError(),
    "timeout": TimeoutError(),
    "no name": socket.gaierror(socket.EAI_AGAIN, "temporary failure in name resolution"),
    "no route": OSError(errno.EHOSTUNREACH, "no route to host"),
    "tls ended": ssl.SSLEOFError(),
    "httpx": ReadError(),
    "sdk": APIConnectionError(),
    "urllib": URLError(socket.gaierror(socket.EAI_AGAIN, "temporary failure")),
    "urllib 503": HTTPError("http://127.0.0.1", 503, "busy", {}, None),  # type: ignore[arg-type]
    "inside a stream": StatusError(200, body={"error": {"type": "overloaded_error"}}),
    "bedrock throttles": ClientError("ThrottlingException", 400),
    "bedrock is not ready": ClientError("ModelNotReadyException", 429),
    "gemini": GoogleError(503, "UNAVAILABLE"),
    "told to": StatusError(400, {"x-should-retry": "true"}),
    "wrapped": caused(RuntimeError("model call"), ConnectionResetError()),
}
LASTS: dict[str, Exception] = {
    **{f"status {code}": StatusError(code) for code in (400, 401, 403, 404, 413, 422, 501)},
    "no quota": StatusError(429, body={"error": {"code": "insufficient_quota"}}),
    "no quota, by code": StatusError(429, code="insufficient_quota"),
    "not to": StatusError(503, {"x-should-retry": "false"}),
    "certificate": caused(APIConnectionError(), ssl.SSLCertVerificationError()),
    "validation": ClientError("ValidationException", 400),
    "gemini": GoogleError(400, "INVALID_ARGUMENT"),
    "a mistake": KeyError("x"),
    "no such file": FileNotFoundError(),
    "in a stream": StatusError(200, body={"error": {"type": "invalid_request_error"}}),
}


@pytest.mark.parametrize("kind", PASSES)
def test_what_passes_is_transient(kind: str) -> None:
    assert is_transient(PASSES[kind])


@pytest.mark.parametrize("kind", LASTS)
def test_what_stays_wrong_is_not(kind: str) -> None:
    assert not is_transient(LASTS[kind])


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        (StatusError(429, {"retry-after": "7"}), 7.0),
        (StatusError(429, {"Retry-After": "2.5"}), 2.5),
        (StatusError(429, {"retry-after-ms": "1500", "retry-after": "60"}), 1.5),
        (StatusError(503, {"retry-after": "Thu, 01 Jan 1970 00:17:00 GMT"}), 20.0),
        (StatusError(503, {"retry-after": "Thu, 01 Jan 1970 00:00:01 GMT"}), 0.0),
        (StatusError(503, {"retry-after": "soon"}), None),
        (StatusError(503), None),
        (TimeoutError(), None),
        (GoogleError(429, "RESOURCE_EXHAUSTED", {"error": {"details": [{"retryDelay": "34s"}]}}), 34.0),
    ],
)
def test_the_provider_says_when(error: Exception, seconds: float | None) -> None:
    assert retry_after_seconds(error, 1000.0) == seconds


def attempt(*outcomes: Any, **retry: Any) -> tuple[int, int]:
    """Whole seconds that passed and outcomes that were left when a loop with this policy ended or raised."""
    world, left = Simulation(), list(outcomes)

    def model(messages: list[dict[str, Any]]) -> Any:
        outcome = left.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    before = world.time.now_us()
    try:
        with world.start().session("a") as s:
            assert s.run(model, prompt="go", retry=relight.Retry(**retry)) == "done"
    except StatusError:
        left.append("raised")
    return (world.time.now_us() - before) // 1_000_000, len(left)


def test_the_wait_that_is_asked_for_is_obeyed_within_its_bound() -> None:
    assert attempt(StatusError(429, {"retry-after": "90"}), DONE) == (90, 0)
    assert attempt(StatusError(429, {"retry-after": "3600"}), DONE) == (0, 2)
    long = attempt(StatusError(429, {"retry-after": "3600"}), DONE, max_retry_after_seconds=4000.0)
    assert long == (3600, 0)


def test_on_decides_or_leaves_it_to_relight() -> None:
    busy, wrong = StatusError(503), StatusError(400)
    assert attempt(wrong, DONE, on=lambda error: True)[1] == 0
    assert attempt(busy, DONE, on=lambda error: False)[1] == 2
    assert attempt(wrong, DONE, on=lambda error: 42.0) == (42, 0)
    assert attempt(busy, DONE, on=lambda error: None)[1] == 0
    assert attempt(wrong, DONE, on=lambda error: None)[1] == 2
    assert attempt(*[busy] * 3, DONE, on=lambda error: True, attempts=2)[1] == 3
    with pytest.raises(relight.errors.UsageError, match="Retry"):
        attempt(busy, DONE, on=lambda error: "later")


@pytest.mark.parametrize(
    "wrong", [{"attempts": 0}, {"attempts": "3"}, {"first_seconds": -1}, {"max_seconds": math.nan}]
)
def test_a_policy_that_can_be_none_is_refused_where_it_is_made(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=rf"Retry\({next(iter(wrong))}=\)"):
        relight.Retry(**wrong)
    with pytest.raises(UsageError, match="repeats"):
        relight.LoopGuard(repeats=-1)
