"""Any program whose SDK raised, and agents that print error objects: an error name, a status, a body, headers.

The same reader handles an exception as a dict, `{"type": "RateLimitError", "status_code": 429, "body": ...,
"headers": ...}`, which is how a Python loop passes its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from relight.journal.failures import reset, texts
from relight.journal.failures.finding import Finding, by_status
from relight.journal.failures.lenient import first, mapping, one_line, pick, sentence, status_code, word
from relight.values.ending import Ending, FailureClass, Source

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
Said = Callable[[str], FailureClass | None]
"""the class that a message names"""


def find(ending: Ending, *, name: str = "", said: Said = texts.class_of) -> Finding | None:
    """What the structured lines of a program say about this end, or None. `name`: of the error, if it is told elsewhere
    than in these lines."""
    sources: tuple[tuple[Source, tuple[Any, ...]], ...] = (("result", ending.lines), ("transcript", ending.transcript))
    for source, lines in sources:
        for line in reversed(lines):
            if _is_success(line):
                return Finding(kind="ok", source="result")
            if (error := _error_in(line)) is not None:
                return _from_error(error, source, ending, name or _name_of(error), said)
    return None


def find_in_words(text: str) -> FailureClass | None:
    """The class in the output of such a program."""
    named = class_named_in(text)
    return named if named not in {None, "rate_limit"} else texts.class_of(text) or named


def worded(kind: FailureClass, text: str, ending: Ending, *, status: int | None = None) -> Finding:
    """A finding that rests on a text. `status`: of HTTP, if it is told elsewhere than in the text."""
    limited = kind in {"usage_limit", "billing"}
    when = reset.from_text(text, said=ending.now_us, timezone=ending.timezone) if limited else None
    line = next((line for line in text.splitlines() if texts.class_of(line) == kind), text)
    status = texts.status_in(text) or status
    return Finding(
        kind=kind,
        source="text" if texts.class_of(line) == kind else "exit",
        text=one_line(line),
        reset_us=when,
        reset_source=None if when is None else "text",
        fields={} if status is None else {"status": status},
    )


def error_named_in(text: str) -> str:
    """The last error class that a traceback or log names; empty if it names none that is known."""
    found = _NAMED.findall(text)
    return found[-1] if found else ""


def class_named_in(text: str) -> FailureClass | None:
    """The class of that error, unless a code in the text is more specific."""
    for code in _QUOTED_CODE.findall(text):
        if _CODES.get(code) in {"billing", "refused", "context", "usage_limit"}:
            return _CODES[code]
    return _NAMES.get(error_named_in(text))


def _is_success(line: Any) -> bool:
    return (pick(line, "type"), pick(line, "status")) == ("result", "success")


def _error_in(line: Any) -> dict[str, Any] | None:
    """The error object of a line: an agent's, a database row's, or the line itself."""
    error = pick(line, "error")
    if isinstance(error, dict) and pick(line, "type") in ("error", "result", None):
        return error
    inner = pick(pick(line, "data"), "error")
    if isinstance(inner, dict):
        return inner
    is_exception = _name_of(line) in _NAMES or pick(line, "status_code", "statusCode") is not None
    return line if isinstance(line, dict) and is_exception else None


def _from_error(error: dict[str, Any], source: Source, ending: Ending, name: str, said: Said) -> Finding:
    data = {**error, **mapping(pick(error, "data"))}
    body = pick(data, "responseBody", "body", "response_body")
    inner = mapping(pick(body, "error")) if isinstance(body, dict) else {}
    text = sentence(pick(data, "message")) or sentence(pick(inner, "message"))
    status = status_code(pick(data, "statusCode", "status_code", "status", "code"))
    code = _code(data, inner, body if isinstance(body, str) else text)
    kind = _class_of(name, code, status, said(text)) or "unknown"
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


def _class_of(name: str, code: str, status: int | None, said: FailureClass | None) -> FailureClass | None:
    if code in _CODES and status != 529:
        return _CODES[code]
    if name in _NAMES and not (_NAMES[name] == "rate_limit" and said in {"billing", "usage_limit"}):
        return _NAMES[name]
    if status in {None, 400, 429} and said is not None:
        return said
    return by_status(status) or said
