"""The last resort: classifies a message by its text alone.

Agents reword their messages every few months, so fields come first and this comes last. The order is from specific to
general, because messages quote one another: a content filter arrives as "stream disconnected", an empty account as a
rate limit, and "not your usage limit" is none.
"""

from __future__ import annotations

import re
from typing import Final

from relight.journal.failures.finding import by_status
from relight.journal.failures.lenient import plain
from relight.values.ending import FailureClass

TAIL_CHARACTERS: Final = 20_000
_STDERR_LINES: Final = 30
_STDOUT_LINES: Final = 6

_RULES: Final[tuple[tuple[FailureClass, str], ...]] = (
    ("interrupted", r"\[request interrupted by user|turn_aborted|messageabortederror"),
    (
        "billing",
        r"credit balance is too low|out of (?:usage |extra )?credits|insufficient_quota|credit_balance_exhausted"
        r"|quota exceeded\. check your plan|check your plan and billing|billing_(?:error|hard_limit)|payment required"
        r"|specified api usage limits|(?:monthly |organization |project )?spend(?:ing)?[ _](?:limit|cap)\b"
        r"|to use codex with your chatgpt plan|usage_not_included|credits? (?:are |is )?(?:required|depleted)"
        r"|credits_(?:required|depleted)|extra usage is required|usage limit is set to \$0\b",
    ),
    (
        "refused",
        r"content[ _-]filter|content_policy|\binvalid_prompt\b|\bcyber_policy\b|safeguards flagged"
        r"|violat\w+ (?:our|the) (?:usage|content) polic|flagged (?:as potentially|for possible)|policy_violation",
    ),
    (
        "context",
        r"prompt is too long|context_(?:length|window)_exceeded|ran out of room in the model|maximum context length"
        r"|exceeds? (?:the )?(?:model's )?(?:maximum )?context|token count .{0,40}exceeds the maximum"
        r"|request too large|request_too_large|requesttoolargeerror|contextoverflowerror|input is too long",
    ),
    (
        "output_limit",
        r"output token maximum|reason: max_output_tokens|max_output_tokens (?:reached|exceeded)"
        r"|lengthfinishreasonerror|messageoutputlengtherror",
    ),
    ("max_turns", r"maximum number of turns|max(?:imum)?[ _](?:session )?turns (?:reached|exceeded)|error_max_turns"),
    ("max_budget", r"reached maximum budget|token budget exhausted|error_max_budget"),
    (
        "usage_limit",
        r"(?:hit|reached) your (?!(?:account'?s? |organization'?s? )?rate limit)(?:[\w-]+ ){0,3}limit\b"
        r"|(?:usage|session|weekly|daily|[57]-(?:hour|day)) limit reached|usage_limit_(?:reached|exceeded)"
        r"|exhausted your (?:\w+ )?(?:daily )?quota|terminalquotaerror",
    ),
    (
        "model_not_found",
        r"model_not_found|modelnotfounderror|issue with the selected model|\bmodel\b.{1,100}does not exist"
        r"|\bmodel\b.{1,100}(?:is )?not (?:supported|found)\b|unknown model\b",
    ),
    (
        "auth",
        r"(?:invalid|incorrect|missing) (?:api key|x-api-key|bearer)|api key not valid|invalid_api_key|not logged in"
        r"|run /login|failed to authenticate|authentication_(?:error|failed)|authenticationerror|permissiondeniederror"
        r"|oauth token|refresh(?:_| )token|missing environment variable|disabled organization|providerautherror"
        r"|oauth_org_not_allowed|org_disabled_credential|\bunauthorized\b|permission_error",
    ),
    (
        "rate_limit",
        r"rate[ _-]?limit(?:s|ed|ing)?\b|ratelimiterror|rate_limit_(?:error|exceeded)|too many requests|\bslow_down\b"
        r"|temporarily limiting requests|resource_exhausted|retryablequotaerror",
    ),
    ("overloaded", r"overloaded|at capacity\b|service unavailable|serviceunavailableerror"),
    ("server_error", r"internal[ _]server[ _]error|internalservererror|experiencing high demand|bad gateway"),
    (
        "network",
        r"\b(?:econn\w+|eai_\w+|enotfound|etimedout|enetunreach|ehostunreach|epipe)\b|connection_failed"
        r"|connection (?:refused|reset|error|closed|failed|aborted|timed out)|stream (?:disconnected|closed)"
        r"|api(?:connection|timeout)error|request timed out|timed? ?out waiting|idle timeout|socket hang up"
        r"|fetch failed|network (?:is |was )?(?:down|unreachable|lost|error)|error sending request"
        r"|(?:temporary failure in )?name resolution|could not resolve|waiting for network|no route to host",
    ),
    ("oom", r"javascript heap out of memory"),
)
_COMPILED: Final = tuple((kind, re.compile(pattern, re.IGNORECASE)) for kind, pattern in _RULES)
_STATUS: Final = re.compile(
    r"(?:api error:?|unexpected status|last status:|error code:|failed with status|request rejected|http(?: status)?"
    r"|status(?:[ _]?code)?[\"']?[:=]?) \(?([45]\d\d)\b",
    re.IGNORECASE,
)
_BEFORE_STATUS: Final = frozenset(
    {"interrupted", "billing", "refused", "context", "output_limit", "max_turns", "max_budget", "usage_limit"}
)
"""classes that are more specific than a status; for the others the status is more specific"""
_RETRYING: Final = re.compile(
    r"\breconnecting\b|\bretrying (?:in|after|with)\b|^\W*retrying\b|suggested retry after|waiting for network",
    re.IGNORECASE,
)


def class_of(text: str) -> FailureClass | None:
    """The class of a message, if it is known."""
    text = plain(text[-TAIL_CHARACTERS:])
    status = status_in(text)
    by_words = next((kind for kind, pattern in _COMPILED if pattern.search(text)), None)
    if by_words in _BEFORE_STATUS:
        return by_words
    return by_status(status) or by_words


def status_in(text: str) -> int | None:
    """The HTTP status a message names."""
    found = _STATUS.search(text[-TAIL_CHARACTERS:])
    return int(found[1]) if found else None


def is_retry_notice(text: str) -> bool:
    """Whether it announces a retry: that is no failure, whatever error it quotes."""
    return _RETRYING.search(text[:2_000]) is not None


def tail(stdout: str, stderr: str) -> str:
    """The lines worth reading: the end of stderr, then the very end of stdout, without retry notices."""
    talk = _last(stderr, _STDERR_LINES) + _last(stdout, _STDOUT_LINES)
    return "\n".join(line for line in talk if not is_retry_notice(line))


def is_retrying(stderr: str) -> bool:
    """Whether the last message announced a retry."""
    lines = _last(stderr, 1)
    return bool(lines) and is_retry_notice(lines[0])


def _last(text: str, count: int) -> list[str]:
    return [line for line in text[-TAIL_CHARACTERS:].splitlines() if line.strip()][-count:]
