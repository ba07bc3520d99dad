"""Endings are classified rightly: recorded ones, others like them, and whatever JSON an agent may print."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relight.journal.failures import reset, texts
from relight.journal.failures.classify import classify
from relight.values.ending import FAILURE_CLASSES, LEAST_WAIT_SECONDS, MAX_WAIT_SECONDS, Ending, Verdict
from tests.support.recorded_failures import ending_of

US = 1_000_000
NOW = int(datetime(2026, 11, 15, 4, 5, tzinfo=UTC).timestamp()) * US
CASES = [json.loads(line) for line in (Path(__file__).parent / "failures.jsonl").read_text().splitlines()]


def at(*when: int) -> int:
    return int(datetime(*when, tzinfo=UTC).timestamp()) * US  # type: ignore[misc, arg-type]


def judge(agent: str, *lines: Any, code: int | None = 1, now: int = NOW, **more: Any) -> Verdict:
    return classify(Ending(agent=agent, exit_code=code, lines=lines, now_us=now, **more))


# ---------------------------------------------------------------- recorded


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['agent']}-{case['case']}")
@pytest.mark.parametrize("now", [NOW, NOW + 30 * 86_400 * US], ids=["then", "a month later"])
def test_recorded_cases_get_their_class_and_reset(case: dict[str, Any], now: int) -> None:
    verdict = classify(ending_of(case, now_us=now))
    assert verdict.kind == case["expect"]
    if case["reset"] is not None:
        assert (verdict.reset_us, verdict.reset_source) == (case["reset"] * US, "field")
    else:
        assert verdict.reset_source in {None, "text"}  # only a sentence tells it, or nothing does


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['agent']}-{case['case']}")
def test_recorded_cases_read_the_same_from_text_alone(case: dict[str, Any]) -> None:
    """Without a single field, the sentences still tell most classes."""
    text = _text_of(case)
    if not text or case["rc"] != 1 or case["case"] in {"d_spend429_oauth", "x_404_model"}:
        return
    verdict = classify(Ending(agent=case["agent"], exit_code=1, stdout=text, now_us=NOW))
    assert verdict.kind == case["expect"]
    if case["reset"] is not None and verdict.kind == "usage_limit":
        assert verdict.reset_us == case["reset"] * US // (60 * US) * (60 * US)


def _text_of(case: dict[str, Any]) -> str:
    result = case.get("result") or {}
    return result.get("result") or " ".join(result.get("errors", [])) or case.get("message") or ""


# ---------------------------------------------------------------- Claude Code


def result(**fields: Any) -> dict[str, Any]:
    return {"type": "result", "subtype": "success", "is_error": True, "terminal_reason": "api_error", **fields}


def spoken(text: str, **fields: Any) -> dict[str, Any]:
    message = {"model": "<synthetic>", "content": [{"type": "text", "text": text}]}
    return {"type": "assistant", "is_api_error_message": True, "message": message, **fields}


def kept(text: str, **fields: Any) -> dict[str, Any]:
    message = {"model": "<synthetic>", "content": [{"type": "text", "text": text}]}
    return {"type": "assistant", "isApiErrorMessage": True, "message": message, **fields}


def event(**info: Any) -> dict[str, Any]:
    return {"type": "rate_limit_event", "rate_limit_info": info}


CLAUDE = [
    ("auth", [result(api_error_status=401, result="Invalid API key · Fix external API key")]),
    ("auth", [result(api_error_status=None, result="Not logged in · Please run /login")]),
    ("auth", [spoken("Not logged in", error="authentication_failed"), result(result="Not logged in")]),
    ("auth", [spoken("x", error="oauth_org_not_allowed"), result(api_error_status=403, result="x")]),
    ("billing", [spoken("x", error="unknown"), result(api_error_status=402, api_error_type="billing_error")]),
    ("billing", [result(api_error_status=402, result="x")]),
    ("billing", [result(api_error_status=429, api_error="long_context_credits_required", result="x")]),
    ("billing", [result(api_error_status=429, result="Usage credits are required for long context requests.")]),
    ("rate_limit", [result(api_error_status=429, result="API Error: Request rejected (429) · slow down")]),
    ("rate_limit", [event(status="rejected", isUsingOverage=False), result(api_error_status=429, result="x")]),
    ("rate_limit", [event(status="allowed", resetsAt=1794722577), result(api_error_status=429, result="x")]),
    ("overloaded", [result(api_error_status=529, terminal_reason="completed", result="API Error: 529 Overloaded")]),
    ("overloaded", [result(api_error_status=None, api_error_type="overloaded_error", result="Overloaded")]),
    ("server_error", [result(api_error_status=502, result="bad gateway")]),
    ("server_error", [spoken("Something", error="server_error"), result(result="Something")]),
    ("network", [result(api_error="connection_failed", result="(EAI_AGAIN)")]),
    ("network", [result(api_error_status=None, result="API Error: Connection error (ECONNRESET)")]),
    ("context", [result(terminal_reason="prompt_too_long", api_error_status=400, result="x")]),
    ("context", [result(api_error_status=400, result="API Error: 400 prompt is too long: 213000 tokens > 200000")]),
    ("model_not_found", [spoken("x", error="model_not_found"), result(api_error_status=404, result="x")]),
    ("refused", [result(stop_reason="refusal", result="Claude's safeguards flagged this message")]),
    ("refused", [result(is_error=False, stop_reason="refusal", result="x", terminal_reason="completed")]),
    ("refused", [{"type": "system", "subtype": "model_refusal_no_fallback"}, result(result="x")]),
    ("output_limit", [spoken("x", error="max_output_tokens"), result(result="x")]),
    (
        "max_turns",
        [result(subtype="error_max_turns", terminal_reason=None, errors=["Reached maximum number of turns"])],
    ),
    ("max_budget", [result(subtype="error_max_budget_usd", terminal_reason=None)]),
    ("interrupted", [result(subtype="error_during_execution", terminal_reason="aborted_tools")]),
    ("interrupted", [result(subtype="error_during_execution", terminal_reason="aborted_streaming")]),
    ("unknown", [result(result="something nobody has seen yet")]),
    ("unknown", [result(api_error_status=400, result="API Error: 400 messages.3: tool_use ids without results")]),
]


@pytest.mark.parametrize(("kind", "lines"), CLAUDE)
def test_claude_fields(kind: str, lines: list[Any]) -> None:
    assert judge("claude", *lines).kind == kind
    assert judge("claude_code", *lines, code=0).kind == kind  # the exit code has no say


def test_claude_200_is_ok_whatever_its_text_says() -> None:
    done = {"type": "result", "subtype": "success", "is_error": False, "result": "fixed the 429 rate limit handling"}
    assert judge("claude", done, code=0).kind == "ok"
    assert judge("claude", event(status="rejected", resetsAt=1794722577), done, code=0).reset_us is None


@pytest.mark.parametrize(
    ("limit", "text", "model"),
    [
        ("five_hour", "You've hit your 5-hour limit · resets 6:02am (UTC)", None),
        ("seven_day", "You've hit your weekly limit · resets Nov 18, 3:22pm (UTC)", None),
        ("seven_day_opus", "You've hit your Opus limit · resets Nov 18, 3:22pm (UTC)", "opus"),
        ("seven_day_sonnet", "You've hit your Sonnet limit · resets Nov 18, 3:22pm (UTC)", "sonnet"),
        ("seven_day_overage_included", "You've hit your Fable limit · resets 6:02am (UTC)", "fable"),
    ],
)
def test_claude_limits_tell_their_scope(limit: str, text: str, model: str | None) -> None:
    info = {"status": "rejected", "resetsAt": 1795015377, "rateLimitType": limit}
    failed = result(api_error_status=429, api_error="usage_limit_reached", result=text)
    new = judge("claude", event(**info), spoken(text, api_error_params={"rate_limit_info": info}), failed)
    old = judge("claude", event(**info), result(api_error_status=429, terminal_reason="completed", result=text))
    for verdict in (new, old):
        assert (verdict.kind, verdict.reset_us, verdict.cure) == ("usage_limit", 1795015377 * US, "wait_until")
        assert (verdict.scope.provider, verdict.scope.model) == ("anthropic", model)
    worded = judge("claude", code=1, stdout=text)
    assert (worded.kind, worded.reset_source) == ("usage_limit", "text")


def test_claude_json_output_takes_the_reset_from_the_transcript() -> None:
    text = "You've hit your 5-hour limit · resets 6:02am (UTC)"
    failed = result(api_error_status=429, api_error="usage_limit_reached", result=text)
    quota = {"status": "rejected", "resetsAt": 1794722577, "rateLimitType": "five_hour"}
    for fields in ({"apiErrorParams": {"rate_limit_info": quota}}, {"quotaLimits": quota}):
        verdict = judge("claude", failed, transcript=(kept(text, error="rate_limit", **fields),))
        assert (verdict.reset_us, verdict.reset_source) == (1794722577 * US, "field")
    assert judge("claude", failed).reset_us == at(2026, 11, 15, 6, 2)


def test_claude_transcript_tail_counts_only_while_nothing_came_after_it() -> None:
    error = kept("API Error: 529 Overloaded", error="server_error", apiErrorStatus=529)
    later = {"type": "user", "message": {"role": "user", "content": "go on"}}
    assert judge("claude", code=-9, transcript=(error,)).kind == "overloaded"
    assert judge("claude", code=-9, transcript=(error, {"type": "file-history-snapshot"})).source == "transcript"
    assert judge("claude", code=-9, transcript=(error, later)).kind == "killed"
    assert judge("claude", code=-9, transcript=(later, {**error, "isSidechain": True})).kind == "killed"


def test_claude_text_of_an_old_transcript_is_read_at_its_own_time() -> None:
    line = kept("You've hit your limit · resets Nov 1, 3pm (UTC)", error="rate_limit", apiErrorStatus=429)
    verdict = judge("claude", code=1, transcript=({**line, "timestamp": "2026-10-31T10:00:00.000Z"},))
    assert (verdict.kind, verdict.reset_us) == ("usage_limit", at(2026, 11, 1, 15))
    assert verdict.wake_us == NOW + LEAST_WAIT_SECONDS * US


def test_claude_retries_are_no_failure_until_it_gives_up() -> None:
    retry = {"type": "system", "subtype": "api_retry", "error_status": 529, "error": "overloaded"}
    assert judge("claude", retry, code=143).kind == "terminated"
    assert judge("claude", retry, code=-9).kind == "killed"
    assert judge("claude", retry, code=1).kind == "overloaded"
    assert judge("claude", {"type": "system", "subtype": "init"}, code=0).kind == "unknown"


# ---------------------------------------------------------------- Codex


def rollout(message: str | None, info: Any, **limits: Any) -> tuple[Any, ...]:
    count = {"type": "event_msg", "payload": {"type": "token_count", "rate_limits": limits or None}}
    error = None if message is None else {"message": message, "codex_error_info": info}
    return count, {"type": "event_msg", "payload": {"type": "task_complete", "error": error}}


CODEX: list[tuple[str, str, Any]] = [
    ("usage_limit", "You’ve hit your usage limit. Try again later.", "usage_limit_exceeded"),
    ("billing", "Quota exceeded. Check your plan and billing details.", "usage_limit_exceeded"),
    ("billing", "To use Codex with your ChatGPT plan, upgrade to Plus: https://x.", "usage_limit_exceeded"),
    ("billing", "Your workspace is out of credits. Add credits to continue.", "usage_limit_exceeded"),
    ("billing", "You hit your spend cap set in your workspace.", "usageLimitExceeded"),
    ("rate_limit", "rate limit exceeded: slow down", "rate_limit_exceeded"),
    ("rate_limit", "exceeded retry limit, last status: 429 Too Many Requests", "other"),
    ("overloaded", "Selected model is at capacity. Please try a different model.", "server_overloaded"),
    ("overloaded", "x", {"http_connection_failed": {"http_status_code": 503}}),
    ("server_error", "We’re currently experiencing high demand", "internal_server_error"),
    ("server_error", "x", {"response_too_many_failed_attempts": {"http_status_code": 502}}),
    ("auth", "x", {"http_connection_failed": {"http_status_code": 403}}),
    ("auth", "Your access token could not be refreshed", "unauthorized"),
    ("auth", "Missing environment variable: `OPENAI_API_KEY`.", "other"),
    ("context", '{"error":{"code":"context_length_exceeded","message":"too many"}}', "other"),
    (
        "model_not_found",
        '{"detail":"The \'X\' model is not supported when using Codex with a ChatGPT account."}',
        "other",
    ),
    ("refused", "flagged", "cyber_policy"),
    ("refused", '{"error":{"code":"content_policy_violation"}}', "other"),
    ("refused", "stream disconnected before completion: Incomplete response, reason: content_filter", "other"),
    ("output_limit", "stream disconnected before completion: Incomplete, reason: max_output_tokens", "other"),
    ("network", "stream disconnected before completion: error decoding response body", "other"),
    ("network", "stream closed", {"responseStreamDisconnected": {"httpStatusCode": None}}),
    ("max_budget", "shared rollout token budget exhausted", "session_budget_exceeded"),
    ("unknown", "something new", "other"),
]


@pytest.mark.parametrize(("kind", "message", "info"), CODEX)
def test_codex_rollout(kind: str, message: str, info: Any) -> None:
    verdict = judge("codex", transcript=rollout(message, info))
    assert (verdict.kind, verdict.source) == (kind, "transcript")


def test_codex_money_is_told_by_the_limits_too() -> None:
    limits = {"rate_limit_reached_type": "workspace_owner_credits_depleted", "primary": None}
    assert judge("codex", transcript=rollout("x", "usage_limit_exceeded", **limits)).kind == "billing"
    assert judge("codex", transcript=rollout("x", "usage_limit_exceeded", spend_control_reached=True)).kind == "billing"


def test_codex_waits_for_the_window_that_is_used_up() -> None:
    first = {"used_percent": 100.0, "window_minutes": 300, "resets_at": 1794722832}
    second = {"used_percent": 80.0, "window_minutes": 10080, "resets_at": 1795015632}
    text = "You've hit your usage limit. Try again at 6:07 AM."
    verdict = judge("codex", transcript=rollout(text, "usage_limit_exceeded", primary=first, secondary=second))
    assert verdict.reset_us == 1794722832 * US
    both = {"primary": first, "secondary": {**second, "used_percent": 100}}
    assert judge("codex", transcript=rollout(text, "usage_limit_exceeded", **both)).reset_us == 1795015632 * US


def test_codex_takes_the_windows_of_the_last_healthy_turn_if_no_sentence_helps() -> None:
    healthy = rollout(None, None, primary={"used_percent": 93, "resets_at": 1794722832}, secondary=None)
    premium = rollout("You've hit your usage limit. Try again later.", "usage_limit_exceeded", limit_id="premium")
    assert judge("codex", transcript=(*healthy, *premium)).reset_us == 1794722832 * US
    dated = rollout("Try again at Nov 18th, 2026 3:25 PM.", "usage_limit_exceeded", limit_id="premium")
    assert judge("codex", transcript=(*healthy, *dated)).reset_us == at(2026, 11, 18, 15, 25)


def test_codex_times_are_local() -> None:
    lines = rollout("You’ve hit your usage limit. Try again at 6:05 AM.", "usage_limit_exceeded")
    assert judge("codex", transcript=lines, timezone="Europe/Warsaw").reset_us == at(2026, 11, 15, 5, 5)
    assert judge("codex", transcript=lines, timezone="America/New_York").reset_us == at(2026, 11, 15, 11, 5)
    older = rollout("try again in 2 days 17 hours 14 minutes", "usage_limit_exceeded")
    assert judge("codex", transcript=older).reset_us == NOW + (2 * 86_400 + 17 * 3_600 + 14 * 60) * US


def test_codex_only_a_failed_turn_is_a_failure() -> None:
    notice = {"type": "error", "message": "Reconnecting... 1/1 (unexpected status 503)"}
    failed = {"type": "turn.failed", "error": {"message": "unexpected status 401 Unauthorized: x"}}
    assert judge("codex", notice, {"type": "turn.completed"}, code=0).kind == "ok"
    assert judge("codex", notice, code=-15).kind == "terminated"
    assert judge("codex", notice, failed).kind == "auth"
    assert judge("codex", notice, code=1, stdout=json.dumps(notice)).kind == "unknown"
    assert (
        judge("codex", code=1, stderr="ERROR: You’ve hit your usage limit. Try again at 6:05 AM.").reset_us is not None
    )


def test_codex_turns_that_began_again_are_not_over() -> None:
    failed = rollout("x", "server_overloaded")
    begun = {"type": "event_msg", "payload": {"type": "task_started"}}
    aborted = {"type": "event_msg", "payload": {"type": "turn_aborted", "reason": "interrupted"}}
    assert judge("codex", code=-9, transcript=(*failed, begun)).kind == "killed"
    assert judge("codex", transcript=(*failed, begun, aborted)).kind == "interrupted"
    assert judge("codex", code=-9, transcript=rollout(None, None)).kind == "killed"


# ---------------------------------------------------------------- others


def api_error(status: int, **more: Any) -> dict[str, Any]:
    return {"type": "error", "error": {"name": "APIError", "data": {"message": "x", "statusCode": status, **more}}}


OTHERS: list[tuple[str, dict[str, Any]]] = [
    (
        "usage_limit",
        {"agent": "gemini", "rc": 173, "stderr": "TerminalQuotaError: You have exhausted your daily quota"},
    ),
    (
        "rate_limit",
        {"agent": "gemini", "rc": 173, "stderr": "You exceeded your current quota, check your plan and billing"},
    ),
    (
        "usage_limit",
        {
            "agent": "gemini",
            "rc": 173,
            "stderr": "TerminalQuotaError: x",
            "result": {
                "type": "result",
                "status": "error",
                "error": {"message": "[API Error: quota, check your plan]"},
            },
        },
    ),
    ("auth", {"agent": "gemini", "rc": 145, "result": {"type": "result", "error": {"message": "[API Error: no]"}}}),
    ("auth", {"agent": "gemini", "rc": 145}),
    ("auth", {"agent": "gemini", "rc": 144, "stderr": "API key not valid. Please pass a valid API key."}),
    ("auth", {"agent": "gemini", "rc": 41}),
    ("context", {"agent": "gemini", "rc": 144, "stderr": "input token count (1200000) exceeds the maximum number"}),
    ("max_turns", {"agent": "gemini", "rc": 53}),
    ("model_not_found", {"agent": "gemini", "rc": 1, "stderr": "ModelNotFoundError: models/x is not found"}),
    ("overloaded", {"agent": "gemini", "rc": 247}),
    ("server_error", {"agent": "gemini", "rc": 244}),
    ("terminated", {"agent": "gemini", "rc": 0, "stderr": "Attempt 3 failed with status 503. Retrying with backoff"}),
    ("terminated", {"agent": "gemini", "rc": 143}),
    ("ok", {"agent": "gemini", "rc": 0, "stdout": "done"}),
    ("rate_limit", {"agent": "opencode", "rc": 1, "lines": [api_error(429, responseHeaders={"retry-after": "2"})]}),
    (
        "billing",
        {"agent": "opencode", "rc": 1, "lines": [api_error(429, responseBody='{"code":"insufficient_quota"}')]},
    ),
    ("auth", {"agent": "opencode", "rc": 1, "lines": [api_error(401, isRetryable=False)]}),
    ("context", {"agent": "opencode", "rc": 1, "error": {"name": "ContextOverflowError", "data": {}}}),
    ("auth", {"agent": "opencode", "rc": 1, "error": {"name": "ProviderAuthError"}}),
    ("output_limit", {"agent": "opencode", "rc": 1, "error": {"name": "MessageOutputLengthError"}}),
    ("interrupted", {"agent": "opencode", "rc": 1, "error": {"name": "MessageAbortedError"}}),
    (
        "overloaded",
        {"agent": "command", "rc": 1, "stderr": "anthropic.OverloadedError: Error code: 529 - {'type': 'error'}"},
    ),
    ("rate_limit", {"agent": "command", "rc": 1, "stderr": "openai.RateLimitError: Error code: 429 - {'error': {}}"}),
    (
        "billing",
        {
            "agent": "command",
            "rc": 1,
            "stderr": "openai.RateLimitError: Error code: 429 - {'code': 'insufficient_quota'}",
        },
    ),
    ("network", {"agent": "command", "rc": 1, "stderr": "openai.APIConnectionError: Connection error."}),
    ("network", {"agent": "command", "rc": 1, "error": {"type": "anthropic.APITimeoutError"}}),
    (
        "billing",
        {
            "agent": "sdk",
            "error": {
                "type": "RateLimitError",
                "status_code": 429,
                "body": {
                    "error": {"type": "rate_limit_error", "details": {"error_code": "enforced_spend_limit_reached"}}
                },
            },
        },
    ),
    ("unknown", {"agent": "command", "rc": 3, "stderr": "KeyError: 'x'"}),
    ("oom", {"agent": "command", "rc": -6, "stderr": "FATAL ERROR: ... JavaScript heap out of memory"}),
    ("crashed", {"agent": "command", "rc": -11}),
    ("interrupted", {"agent": "command", "rc": 130}),
    ("killed", {"agent": "command", "rc": 137}),
    ("oom", {"agent": "command", "rc": 137, "oom_kills": 1}),
    ("terminated", {"agent": "command", "rc": -15, "oom_kills": 1}),
    ("killed", {"agent": "command", "rc": None, "signal": 9}),
    ("unknown", {"agent": "command", "rc": None}),
]


@pytest.mark.parametrize(("kind", "record"), OTHERS)
def test_other_agents(kind: str, record: dict[str, Any]) -> None:
    assert classify(ending_of(record, now_us=NOW)).kind == kind


def test_headers_tell_how_long_to_wait() -> None:
    headers = {"Retry-After": "2", "x-ratelimit-reset-tokens": "6m0s"}
    assert judge("opencode", api_error(429, responseHeaders=headers)).fields["retry_after_seconds"] == 360
    assert reset.retry_after_seconds({"retry-after": "Sun, 15 Nov 2026 04:06:00 GMT"}, NOW) == 60
    assert reset.retry_after_seconds({"anthropic-ratelimit-tokens-reset": "2026-11-15T04:05:30Z"}, NOW) == 30


# ---------------------------------------------------------------- order


def test_order_of_trust() -> None:
    limit = result(api_error_status=429, api_error="usage_limit_reached", result="x")
    auth = kept("x", error="authentication_failed", apiErrorStatus=401)
    words: dict[str, Any] = {"stderr": "API Error: 529 Overloaded"}
    tail: dict[str, Any] = {**words, "transcript": (auth,)}
    order = [
        judge("claude", limit, own_signal=15, **tail),
        judge("claude", limit, **tail),
        judge("claude", **tail),
        judge("claude", **words),
        judge("claude", code=137, **words),
        judge("claude", code=7),
    ]
    assert [(verdict.kind, verdict.source) for verdict in order] == [
        ("paused", "own_signal"),
        ("usage_limit", "result"),
        ("auth", "transcript"),
        ("overloaded", "text"),
        ("killed", "exit"),
        ("unknown", "none"),
    ]


def test_cures_are_bounded_and_never_wait_hours_for_what_is_transient() -> None:
    for case in CASES:
        verdict = classify(ending_of(case, now_us=NOW))
        assert (verdict.cure == "backoff") == (verdict.backoff is not None)
        assert (verdict.cure == "wait_until") <= (verdict.wake_us is not None)
        if verdict.transient:
            assert verdict.backoff is not None and verdict.backoff.most_seconds <= 900
    assert judge("claude", result(api_error_status=401, result="OAuth token has expired")).fields["blind_retries"] == 1


# ---------------------------------------------------------------- reset texts


@pytest.mark.parametrize(
    ("text", "when"),
    [
        ("Claude AI usage limit reached|1794722577", at(2026, 11, 15, 6, 2, 57)),
        ("Claude usage limit reached. Your limit will reset at 5pm (Europe/Warsaw).", at(2026, 11, 15, 16)),
        ("5-hour limit reached ∙ resets 2am", at(2026, 11, 16, 2)),
        ("You've hit your limit · resets 11pm (Europe/Warsaw)", at(2026, 11, 15, 22)),
        ("You've hit your session limit · resets 12:50am (America/Los_Angeles)", at(2026, 11, 15, 8, 50)),
        ("You’ve hit your 5-hour limit · resets 6:02am (UTC)", at(2026, 11, 15, 6, 2)),
        ("You've hit your weekly limit · resets Nov 18, 3:22pm (UTC)", at(2026, 11, 18, 15, 22)),
        ("Weekly limit reached · resets Feb 22 at 9:30am", at(2027, 2, 22, 9, 30)),
        ("You're out of usage credits · resets 12am (UTC)", at(2026, 11, 16)),
        ("... resets 12:30pm (Asia/Kolkata)", at(2026, 11, 15, 7)),
        ("... or try again at 6:05\u202fAM.", at(2026, 11, 15, 6, 5)),
        ("... or try again at Nov 18th, 2026 3:25 PM.", at(2026, 11, 18, 15, 25)),
        ("... or try again at Jan 1st, 2027 12:00 AM.", at(2027, 1, 1)),
        ("Usage limit reached · continuing automatically at 6:10am · esc to cancel", at(2026, 11, 15, 6, 10)),
        ("You will regain access on 2026-12-01 at 00:00 UTC.", at(2026, 12, 1)),
        ("resets 4:04am (UTC)", at(2026, 11, 15, 4, 4)),  # told to the minute, it may be this one
        ("resets 6:02am (Mars/Olympus)", at(2026, 11, 15, 6, 2)),
        ("Your group's usage limit is set to $0", None),
        ("try again later", None),
        ("resets 25pm", None),
        ("resets Feb 31 at 9am", None),
        ("resets 3", None),
    ],
)
def test_reset_texts(text: str, when: int | None) -> None:
    assert reset.from_text(text, said=NOW, timezone="UTC") == when


def test_reset_text_in_the_agents_zone_across_the_clock_change() -> None:
    spring = at(2027, 3, 28, 0, 30)
    assert reset.from_text("resets 5am", said=spring, timezone="Europe/Warsaw") == at(2027, 3, 28, 3)
    assert reset.from_text("resets 12:30am", said=spring, timezone="Europe/Warsaw") == at(2027, 3, 28, 22, 30)


# ---------------------------------------------------------------- properties

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=40)
FIELDS = (
    "type subtype is_error result error errors message content text model status terminal_reason stop_reason "
    "api_error api_error_code api_error_status api_error_params rate_limit_info resetsAt unifiedWindows rateLimitType "
    "payload codex_error_info rate_limits primary secondary used_percent resets_at data name statusCode headers body "
    "responseHeaders timestamp isApiErrorMessage apiErrorParams quotaLimits reason connection"
)
VALUES = (
    "assistant user result system error event_msg task_complete turn.failed token_count rejected rate_limit other "
    "usage_limit_exceeded APIError <synthetic> success 429 resets-6am api_retry"
)
KEYS = st.sampled_from(FIELDS.split())
WORDS = st.sampled_from(VALUES.split())
TALK = st.sampled_from([*filter(None, map(_text_of, CASES)), "resets 99:99pm", "try again in 9999999999999999 days"])
anything = st.recursive(
    scalars | WORDS | TALK,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS | st.text(max_size=8), inner, max_size=6),
    max_leaves=25,
)
endings = st.builds(
    Ending,
    agent=st.sampled_from(["claude", "codex", "gemini", "opencode", "command", ""]),
    exit_code=st.none() | st.integers(-70, 300),
    signal=st.none() | st.integers(0, 70),
    own_signal=st.none() | st.sampled_from([2, 9, 15]),
    lines=st.lists(anything, max_size=4).map(tuple),
    transcript=st.lists(anything, max_size=4).map(tuple),
    stdout=st.text(max_size=60) | TALK,
    stderr=st.text(max_size=60) | TALK,
    oom_kills=st.integers(-1, 3),
    now_us=st.integers(NOW - 10**14, NOW + 10**14),
    timezone=st.sampled_from(["UTC", "Europe/Warsaw", "Nowhere/At/All", "../etc/passwd", ""]),
)


@given(endings)
def test_total_and_waits_are_clamped(ending: Ending) -> None:
    verdict = classify(ending)
    assert verdict.kind in FAILURE_CLASSES
    assert verdict == classify(ending)
    assert len(verdict.text) <= 300
    if verdict.wake_us is not None:
        assert LEAST_WAIT_SECONDS * US <= verdict.wake_us - ending.now_us <= MAX_WAIT_SECONDS * US
        assert verdict.wake_at is not None and verdict.reset_at is not None
    if ending.own_signal:
        assert verdict.kind == "paused"


@given(st.text() | TALK, st.integers())
def test_texts_are_total(text: str, said: int) -> None:
    texts.class_of(text)
    reset.in_text(text)
    reset.from_text(text, said=said, timezone="UTC")


@given(st.integers(0, 8 * 86_400), st.sampled_from(["UTC", "Europe/Warsaw", "America/Los_Angeles", "Asia/Kolkata"]))
def test_a_time_of_day_is_the_next_one(offset: int, zone: str) -> None:
    said = NOW + offset * US
    when = reset.from_text(f"resets 6:02am ({zone})", said=said, timezone="UTC")
    assert when is not None and -120 * US <= when - said <= 25 * 3600 * US
