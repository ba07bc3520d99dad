"""Claude Code: the result line, the synthetic assistant line of an API error, the rate limit event, the transcript.

`subtype` is "success" for API errors, so `is_error` is checked first; then the specific fields (terminal_reason,
api_error_code, api_error), then the general ones (error, api_error_type, status), then the message. Stream lines are
snake case, transcript lines camel case; 2.1.197 has neither api_error nor its parameters, and a rate limit event with a
reset beside a 429 indicates its usage limit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from relight.journal.failures import reset, texts
from relight.journal.failures.finding import Finding, by_status
from relight.journal.failures.lenient import (
    first,
    items,
    mapping,
    number,
    one_line,
    pick,
    plain,
    sentence,
    status_code,
    word,
)
from relight.values.ending import Ending, FailureClass, ResetSource, Source

NAME: Final = "claude"
PROVIDER: Final = "anthropic"
CONTEXT_PROMPT: Final[str | None] = "/compact"
_TERMINAL: Final[Mapping[str, FailureClass]] = {
    "aborted_tools": "interrupted",
    "aborted_streaming": "interrupted",
    "max_turns": "max_turns",
    "error_max_turns": "max_turns",
    "budget_exhausted": "max_budget",
    "error_max_budget_usd": "max_budget",
    "prompt_too_long": "context",
    "image_error": "context",
}
"""terminal_reason and subtype"""
_CODES: Final[Mapping[str, FailureClass]] = {
    "enforced_spend_limit_reached": "billing",
    "long_context_credits_required": "billing",
    "model_requires_usage_credits": "billing",
    "org_disabled_credential": "auth",
    "oauth_org_not_allowed": "auth",
    "connection_failed": "network",
    "no_response": "network",
    "max_output_tokens": "output_limit",
    "model_not_found": "model_not_found",
    "prompt_too_long": "context",
}
"""api_error_code and api_error: Claude Code's own classification"""
_ERRORS: Final[Mapping[str, FailureClass]] = {
    "billing_error": "billing",
    "authentication_failed": "auth",
    "oauth_org_not_allowed": "auth",
    "model_not_found": "model_not_found",
    "max_output_tokens": "output_limit",
}
"""`error` of the assistant line, where it is more specific than the status"""
_TYPES: Final[Mapping[str, FailureClass]] = {
    "billing_error": "billing",
    "overloaded_error": "overloaded",
    "request_too_large": "context",
    "authentication_error": "auth",
    "permission_error": "auth",
    "not_found_error": "model_not_found",
    "timeout_error": "network",
}
"""`error.type` of the provider's body"""
_VAGUE: Final[Mapping[str, FailureClass]] = {
    "rate_limit": "rate_limit",
    "overloaded": "overloaded",
    "server_error": "server_error",
}
"""`error` where there is no status"""
_LIMIT_MODEL: Final = {"seven_day_overage_included": "fable"}
_MODEL_TEXT: Final = re.compile(r"your (opus|sonnet|haiku|fable|[a-z]+-\d[\w.-]*) limit", re.IGNORECASE)
_INTERRUPTED: Final = "[Request interrupted by user"


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """One failed end, collected from all lines about it."""

    source: Source
    result: dict[str, Any]
    line: dict[str, Any]
    """the synthetic assistant line"""
    info: dict[str, Any]
    """rate_limit_info"""
    text: str
    said: int

    def field(self, *names: str) -> Any:
        return first((self.result, self.line), *names)


def is_unfinished(ending: Ending) -> bool:
    """Whether it exited with 0 without a result line, which it always prints last."""
    return any(pick(line, "type") == "system" for line in ending.lines)


def find(ending: Ending) -> Finding | None:
    """What Claude Code's own records say about this end, or None."""
    result = _last(ending.lines, "result")
    if result is not None and not _is_error(result):
        refused = pick(result, "stop_reason") == "refusal"
        kind: FailureClass = "refused" if refused else "ok"
        text = one_line(sentence(pick(result, "result"))) if refused else ""
        return Finding(kind=kind, source="result", text=text, fields={} if refused else _warning(ending.lines))
    facts = _facts(ending, result)
    if facts is None:
        return None
    kind = _class_of(facts) or "unknown"
    when, how = _reset(facts, ending) if kind in {"usage_limit", "billing"} else (None, None)
    return Finding(
        kind=kind,
        source=facts.source,
        text=one_line(facts.text),
        reset_us=when,
        reset_source=how,
        model=_model(facts) if kind == "usage_limit" else None,
        fields=_fields(facts),
    )


def _is_error(result: dict[str, Any]) -> bool:
    if isinstance(flag := pick(result, "is_error", "isError"), bool):
        return flag
    return word(pick(result, "subtype")) not in {"", "success"}


def _facts(ending: Ending, result: dict[str, Any] | None) -> Facts | None:
    streamed = _api_error(ending.lines, only_last=result is None)
    kept = _api_error(ending.transcript, only_last=True)
    line = streamed if streamed is not None else kept
    refusal = _refusal(ending.lines)
    if result is None and line is None and refusal is None:
        return None
    if result is None and line is None:
        line = refusal
    text = sentence(pick(result, "result")) or sentence(_errors(result)) or sentence(pick(line, "message", "content"))
    return Facts(
        source="result" if result is not None or line is not kept else "transcript",
        result={**(result or {}), **({"stop_reason": "refusal"} if refusal is not None else {})},
        line=line or {},
        info=_info(ending.lines, (streamed, kept), ("rejected",)),
        text=text,
        said=reset.said_us(line, ending.now_us),
    )


def _class_of(facts: Facts) -> FailureClass | None:
    ends = (word(facts.field("terminal_reason", "terminalReason")), word(facts.field("subtype")))
    codes = (word(facts.field("api_error_code", "apiErrorCode")), word(facts.field("api_error", "apiError")))
    return (
        _known(_TERMINAL, *ends)
        or ("interrupted" if _INTERRUPTED in facts.text else None)
        or ("refused" if facts.field("stop_reason") == "refusal" else None)
        or _known(_CODES, *codes)
        or (_limit(facts) if "usage_limit_reached" in codes else None)
        or _known(_ERRORS, word(facts.field("error")))
        or _by_answer(facts)
    )


def _by_answer(facts: Facts) -> FailureClass | None:
    """By the provider's response: its error type, status, message."""
    status = status_code(facts.field("api_error_status", "apiErrorStatus"))
    typed = _known(_TYPES, word(facts.field("api_error_type", "apiErrorType")))
    said = texts.class_of(facts.text)
    if status == 429 or (status is None and word(facts.field("error")) == "rate_limit"):
        if _limited(facts.info) or said == "usage_limit":
            return _limit(facts)
        return "billing" if typed == "billing" or said == "billing" else "rate_limit"
    if status is None:
        return typed or said or _known(_VAGUE, word(facts.field("error")))
    if status == 400:
        return typed or said
    return typed or by_status(status) or said


def _limit(facts: Facts) -> FailureClass:
    """A usage limit, unless the paid overage is used up: then credit is missing."""
    kind = word(pick(facts.info, "rateLimitType", "rate_limit_type"))
    spent = kind == "overage" or (not kind and texts.class_of(facts.text) == "billing")
    return "billing" if spent else "usage_limit"


def _limited(info: dict[str, Any]) -> bool:
    """A rejected event with a reset. Without one it is an ordinary 429."""
    return pick(info, "status") == "rejected" and _info_reset(info) is not None


def _info_reset(info: dict[str, Any]) -> int | None:
    if (said := reset.epoch_us(pick(info, "resetsAt", "resets_at"))) is not None:
        return said
    windows = mapping(pick(info, "unifiedWindows", "unified_windows")).values()
    rejected = [pick(window, "resetsAt", "resets_at") for window in windows if pick(window, "status") == "rejected"]
    return max((at for value in rejected if (at := reset.epoch_us(value)) is not None), default=None)


def _reset(facts: Facts, ending: Ending) -> tuple[int | None, ResetSource | None]:
    if pick(facts.info, "status") in ("rejected", None) and (exact := _info_reset(facts.info)) is not None:
        return exact, "field"
    said = reset.from_text(facts.text, said=facts.said, timezone=ending.timezone)
    return said, None if said is None else "text"


def _model(facts: Facts) -> str | None:
    limit = word(pick(facts.info, "rateLimitType", "rate_limit_type"))
    if limit in _LIMIT_MODEL:
        return _LIMIT_MODEL[limit]
    if limit.startswith("seven_day_"):
        return limit.removeprefix("seven_day_")
    named = _MODEL_TEXT.search(plain(facts.text))
    return named[1].lower() if named else None


def _fields(facts: Facts) -> dict[str, str | int | float | bool | None]:
    found: dict[str, str | int | float | bool | None] = {}
    if (status := status_code(facts.field("api_error_status", "apiErrorStatus"))) is not None:
        found["status"] = status
    code = word(facts.field("api_error_code", "apiErrorCode")) or word(facts.field("api_error", "apiError"))
    if code:
        found["code"] = code
    if limit := word(pick(facts.info, "rateLimitType", "rate_limit_type")):
        found["limit"] = limit
    if isinstance(hopeless := facts.field("resend_cannot_cure", "resendCannotCure"), bool):
        found["resend_cannot_cure"] = hopeless
    return found


def _warning(lines: Sequence[Any]) -> dict[str, str | int | float | bool | None]:
    """A successful end may still warn how much of the limit is used."""
    info = _info(lines, (), ("allowed_warning", "allowed", "rejected"))
    used = number(pick(info, "utilization"))
    if pick(info, "status") != "allowed_warning" or used is None:
        return {}
    return {"utilization": used, "limit": word(pick(info, "rateLimitType", "rate_limit_type"))}


def _known(table: Mapping[str, FailureClass], *words: str) -> FailureClass | None:
    return next((table[name] for name in words if name in table), None)


def _last(lines: Sequence[Any], kind: str) -> dict[str, Any] | None:
    return next((line for line in reversed(lines) if isinstance(line, dict) and line.get("type") == kind), None)


def _errors(result: dict[str, Any] | None) -> list[dict[str, str]]:
    return [{"text": error} for error in items(pick(result, "errors"))[:5] if isinstance(error, str)]


def _refusal(lines: Sequence[Any]) -> dict[str, Any] | None:
    for line in reversed(lines):
        if pick(line, "type") == "assistant":
            return line if pick(mapping(line).get("message"), "stop_reason") == "refusal" else None
        if pick(line, "type") == "system" and pick(line, "subtype") == "model_refusal_no_fallback":
            return mapping(line)
    return None


def _api_error(lines: Sequence[Any], *, only_last: bool = False) -> dict[str, Any] | None:
    """The last line that is an API error; with `only_last`, only if no message follows it."""
    for line in reversed(lines):
        if not isinstance(line, dict) or line.get("type") not in ("assistant", "user"):
            continue
        if pick(line, "isSidechain") is True or pick(line, "isMeta") is True:
            continue
        if _is_api_error(line):
            return line
        if only_last:
            return _abort(line)
    return None


def _is_api_error(line: dict[str, Any]) -> bool:
    if line.get("type") != "assistant":
        return False
    flagged = pick(line, "is_api_error_message", "isApiErrorMessage") is True
    return flagged or (pick(line, "error") is not None and pick(line.get("message"), "model") == "<synthetic>")


def _abort(line: dict[str, Any]) -> dict[str, Any] | None:
    """The user's own mark of an interrupt is an end too."""
    if line.get("type") != "user":
        return None
    return line if sentence(line.get("message")).startswith(_INTERRUPTED) else None


def _info(lines: Sequence[Any], errors: Sequence[dict[str, Any] | None], statuses: tuple[str, ...]) -> dict[str, Any]:
    """The rate limit's state: the error's own, then the last event of that status, then the transcript's quota."""
    for error in errors:
        info = pick(pick(error, "api_error_params", "apiErrorParams"), "rate_limit_info", "rateLimitInfo")
        if isinstance(info, dict):
            return info
    for line in reversed(lines):
        info = pick(line, "rate_limit_info", "rateLimitInfo")
        if isinstance(info, dict) and pick(info, "status") in statuses:
            return info
    return mapping(first(errors, "quotaLimits", "quota_limits"))
