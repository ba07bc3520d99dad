"""gemini-cli, opencode, and any program whose SDK raised: an error name, a status, a body, headers.

Gemini exits with the HTTP status modulo 256 and names a class on stderr; opencode prints an error object; SDKs name an
exception. The same reader handles an exception as a dict, `{"type": "RateLimitError", "status_code": 429, "body": ...,
"headers": ...}`, which is how a Python loop passes its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from relight.journal.failures import reset, texts
from relight.journal.failures.finding import Finding, by_status
from relight.journal.failures.lenient import first, mapping, one_line, pick, sentence, status_code, word
from relight.values.ending import Ending, FailureClass

_NAMES: Final[Mapping[str, FailureClass]] = {
    "ContextOverflowError": "context",
    "ProviderAuthError": "auth",
    "MessageOutputLengthError": "output_limit",
    "MessageAbortedError": "interrupted",
    "TerminalQuotaError": "usage_limit",
    "RetryableQuotaError": "rate_limit",
    "ModelNotFoundError": "model_not_found",
    "FatalAuthenticationError": "auth",
    "FatalTurnLimitedError": "max_turns",
    "FatalCancellationError": "interrupted",
    "APIConnectionError": "network",
    "APITimeoutError": "network",
    "AuthenticationError": "auth",
    "PermissionDeniedError": "auth",
    "NotFoundError": "model_not_found",
    "RequestTooLargeError": "context",
    "RateLimitError": "rate_limit",
    "InternalServerError": "server_error",
    "DeadlineExceededError": "server_error",
    "ServiceUnavailableError": "overloaded",
    "OverloadedError": "overloaded",
    "LengthFinishReasonError": "output_limit",
    "ContentFilterFinishReasonError": "refused",
}
_CODES: Final[Mapping[str, FailureClass]] = {
    "insufficient_quota": "billing",
    "usage_not_included": "billing",
    "enforced_spend_limit_reached": "billing",
    "credit_balance_exhausted": "billing",
    "billing_error": "billing",
    "billing_hard_limit_reached": "billing",
    "usage_limit_reached": "usage_limit",
    "context_length_exceeded": "context",
    "request_too_large": "context",
    "model_not_found": "model_not_found",
    "invalid_api_key": "auth",
    "authentication_error": "auth",
    "permission_error": "auth",
    "content_filter": "refused",
    "content_policy_violation": "refused",
    "invalid_prompt": "refused",
    "cyber_policy": "refused",
    "rate_limit_exceeded": "rate_limit",
    "slow_down": "rate_limit",
    "overloaded_error": "overloaded",
    "server_is_overloaded": "overloaded",
}
_NAMED: Final = re.compile(r"\b(?:\w+\.)*(" + "|".join(_NAMES) + r")\b")
_QUOTED_CODE: Final = re.compile(r"[\"'](?:code|type|error_code)[\"']\s*:\s*[\"'](\w+)[\"']")
_GEMINI_EXIT: Final[Mapping[int, FailureClass]] = {41: "auth", 53: "max_turns"}
_STATUSES: Final = (400, 401, 402, 403, 404, 408, 413, 429, 500, 502, 503, 504, 529)


def find(ending: Ending) -> Finding | None:
    """What the structured lines of any other agent say about this end, or None."""
    for source, lines in (("result", ending.lines), ("transcript", ending.transcript)):
        for line in reversed(lines):
            if _is_success(line):
                return Finding(kind="ok", source="result")
            if (error := _error_in(line)) is not None:
                return _from_error(error, "result" if source == "result" else "transcript", ending)
    return None


def find_in_words(text: str, ending: Ending) -> FailureClass | None:
    """The class in the output of such a program, and in Gemini's exit code."""
    named, said = _named_in(text), _said(ending.agent, text)
    by_exit = by_status(gemini_status(ending)) or _GEMINI_EXIT.get(_gemini_code(ending))
    particular = [kind for kind in (named, by_exit) if kind not in {None, "rate_limit"}]
    return particular[0] if particular else said or named or by_exit


def gemini_status(ending: Ending) -> int | None:
    """Gemini exits with an HTTP status modulo 256, besides a few codes of its own."""
    return next((status for status in _STATUSES if status % 256 == _gemini_code(ending)), None)


def _gemini_code(ending: Ending) -> int:
    return ending.exit_code or 0 if ending.agent == "gemini" else 0


def _named_in(text: str) -> FailureClass | None:
    """The error class named in a traceback or log, unless a code in it is more specific."""
    for code in _QUOTED_CODE.findall(text):
        if _CODES.get(code) in {"billing", "refused", "context", "usage_limit"}:
            return _CODES[code]
    found = _NAMED.findall(text)
    return _NAMES[found[-1]] if found else None


def _is_success(line: Any) -> bool:
    return (pick(line, "type"), pick(line, "status")) == ("result", "success")


def _error_in(line: Any) -> dict[str, Any] | None:
    """The error object of a line: opencode's, gemini's, a database row's, or the line itself."""
    error = pick(line, "error")
    if isinstance(error, dict) and pick(line, "type") in ("error", "result", None):
        return error
    inner = pick(pick(line, "data"), "error")
    if isinstance(inner, dict):
        return inner
    is_exception = _name_of(line) in _NAMES or pick(line, "status_code", "statusCode") is not None
    return line if isinstance(line, dict) and is_exception else None


def _from_error(error: dict[str, Any], source: Any, ending: Ending) -> Finding:
    data = {**error, **mapping(pick(error, "data"))}
    body = pick(data, "responseBody", "body", "response_body")
    inner = mapping(pick(body, "error")) if isinstance(body, dict) else {}
    text = sentence(pick(data, "message")) or sentence(pick(inner, "message"))
    status = status_code(pick(data, "statusCode", "status_code", "status", "code"))
    code = _code(data, inner, body if isinstance(body, str) else text)
    kind = _class_of(ending.agent, _name(error, ending), code, status, text) or "unknown"
    fields: dict[str, str | int | float | bool | None] = {}
    fields |= {"status": status} if status is not None else {}
    fields |= {"code": code} if code else {}
    wait = reset.retry_after_seconds(pick(data, "responseHeaders", "headers", "response_headers"), ending.now_us)
    fields |= {"retry_after_seconds": wait} if wait is not None else {}
    when = reset.epoch_us(pick(inner, "resets_at")) if kind == "usage_limit" else None
    how: Any = "field" if when is not None else None
    if when is None and kind in {"usage_limit", "billing"}:
        when = reset.from_text(text, said=ending.now_us, timezone=ending.timezone)
        how = "text" if when is not None else None
    if when is None and kind == "usage_limit" and (seconds := reset.in_text(text)) is not None:
        when, how = ending.now_us + round(seconds * reset.SECOND_US), "text"
    return Finding(kind=kind, source=source, text=one_line(text), reset_us=when, reset_source=how, fields=fields)


def _name(error: dict[str, Any], ending: Ending) -> str:
    """The error's own name; Gemini reports it on stderr only."""
    named = _NAMED.findall(ending.stderr[-texts.TAIL_CHARACTERS :]) if ending.agent == "gemini" else []
    return named[-1] if named else _name_of(error)


def _name_of(error: Any) -> str:
    """`anthropic.RateLimitError` and `RateLimitError` are the same name."""
    name = first((error,), "name", "class", "exception", "type")
    return name.rpartition(".")[2] if isinstance(name, str) and len(name) < 200 else ""


def _code(data: dict[str, Any], inner: dict[str, Any], text: str) -> str:
    """The provider's own code, the most specific first: details, code, type."""
    details = pick(inner, "details")
    for value in (pick(details, "error_code"), pick(data, "code"), pick(inner, "code"), pick(inner, "type")):
        if word(value) in _CODES:
            return word(value)
    return next((code for code in _QUOTED_CODE.findall(text[:10_000]) if code in _CODES), "")


def _class_of(agent: str, name: str, code: str, status: int | None, text: str) -> FailureClass | None:
    said = _said(agent, text)
    if code in _CODES and status != 529:
        return _CODES[code]
    if name in _NAMES and not (_NAMES[name] == "rate_limit" and said in {"billing", "usage_limit"}):
        return _NAMES[name]
    if status in {None, 400, 429} and said is not None:
        return said
    return by_status(status) or said


def _said(agent: str, text: str) -> FailureClass | None:
    """Gemini's message for every 429 says to check plan and billing, so there it is no evidence."""
    kind = texts.class_of(text)
    if agent == "gemini" and kind == "billing" and "credit" not in text.lower():
        return "rate_limit"
    return kind
