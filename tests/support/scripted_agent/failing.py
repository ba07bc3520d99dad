"""What the agent says when the model does not answer: texts and fields as the real one has them."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

_UNIFIED: Final = "anthropic-ratelimit-unified-"
_LIMITS: Final = {"five_hour": "5-hour limit", "seven_day": "weekly limit", "seven_day_opus": "Opus limit"}
_DAY: Final = 86_400


class ApiError(Exception):
    """A request that failed for good, or until it is tried again."""

    def __init__(
        self,
        *,
        text: str,
        error: str,
        status: int | None = None,
        kind: str = "",
        api_error: str = "",
        limit: Mapping[str, Any] | None = None,
        cures: bool = True,
    ) -> None:
        super().__init__(text)
        self.text = text
        self.error = error
        self.status = status
        self.kind = kind
        self.api_error = api_error
        self.limit = dict(limit) if limit is not None else None
        """which limit was met, and when it ends"""
        self.cures = cures
        """may a pause help?"""
        self.after: float | None = None

    def fields(self) -> dict[str, Any]:
        """As the transcript has them; printed lines spell the same in snake case."""
        given = {
            "error": self.error,
            "isApiErrorMessage": True,
            "apiErrorStatus": self.status,
            "apiErrorType": self.kind or None,
            "apiError": self.api_error or None,
            "apiErrorParams": {"rate_limit_info": self.limit} if self.limit else None,
            "quotaLimits": self.limit,
        }
        return {name: value for name, value in given.items() if value is not None}

    def printed(self) -> dict[str, Any]:
        """The same on an assistant line of stdout."""
        snake = {
            "error": "error",
            "isApiErrorMessage": "is_api_error_message",
            "apiErrorStatus": "api_error_status",
            "apiErrorType": "api_error_type",
            "apiError": "api_error",
            "apiErrorParams": "api_error_params",
        }
        return {snake[name]: value for name, value in self.fields().items() if name in snake}

    def resulting(self) -> dict[str, Any]:
        """The same on the result line."""
        return {
            name: value
            for name, value in self.printed().items()
            if name.startswith("api_error_") and (name != "api_error_params")
        } | ({"api_error": self.api_error} if self.api_error else {})


def lost(error: Exception) -> ApiError:
    """A connection that does not come about or breaks."""
    code = "ECONNREFUSED" if isinstance(error, ConnectionRefusedError) else "ECONNRESET"
    text = f"API Error: Unable to connect to API ({code})"
    return ApiError(text=text, error="server_error", api_error="connection_failed")


def failure(status: int, headers: Mapping[str, str], body: bytes, *, subscription: bool) -> ApiError:
    """An answer that is none."""
    reported = {name.lower(): value for name, value in headers.items()}
    kind, message = _told(body)
    if (
        status == 429
        and subscription
        and reported.get(f"{_UNIFIED}status") == "rejected"
        and f"{_UNIFIED}reset" in reported
    ):
        return _limit(reported, kind)
    if status == 401:
        text = f"Failed to authenticate. API Error: 401 {message}"
        return ApiError(text=text, error="authentication_failed", status=status, kind=kind)
    if status == 429:
        text = f"API Error: Request rejected (429) · {message}"
        return ApiError(text=text, error="rate_limit", status=status, kind=kind)
    if status == 400 and "credit balance" in message:
        return ApiError(text="Credit balance is too low", error="billing_error", status=status, kind=kind, cures=False)
    if status >= 500:
        usual = "This is a server-side issue, usually temporary — try again in a moment."
        return ApiError(text=f"API Error: {status} {message}. {usual}", error="server_error", status=status, kind=kind)
    return ApiError(text=f"API Error: {status} {message}", error="invalid_request", status=status, kind=kind)


def _limit(reported: Mapping[str, str], kind: str) -> ApiError:
    claim = reported.get(f"{_UNIFIED}representative-claim", "five_hour")
    resets = int(reported[f"{_UNIFIED}reset"])
    info = {"status": "rejected", "resetsAt": resets, "rateLimitType": claim, "isUsingOverage": False}
    text = f"You've hit your {_LIMITS.get(claim, 'usage limit')} · resets {_clock(resets)} (UTC)"
    return ApiError(
        text=text,
        error="rate_limit",
        status=429,
        kind=kind,
        api_error="usage_limit_reached",
        limit=info,
        cures=False,
    )


def _clock(at: int) -> str:
    moment = datetime.fromtimestamp(at, UTC)
    hour = f"{moment.hour % 12 or 12}:{moment.minute:02d}{'am' if moment.hour < 12 else 'pm'}"
    return hour if at - time.time() < _DAY else f"{moment.strftime('%b')} {moment.day}, {hour}"


def _told(body: bytes) -> tuple[str, str]:
    try:
        error = json.loads(body)["error"]
        return str(error.get("type") or ""), str(error.get("message") or "")
    except (ValueError, KeyError, TypeError, AttributeError):
        return "", body[:200].decode("utf-8", "replace")
