"""Codex: the rollout's last turn, and the lines of `codex exec --json`.

Stdout has no class and no epoch, only a message, so the rollout is read first: `task_complete.error` has the class,
`token_count.rate_limits` the reset. `usage_limit_exceeded` is also used for an empty account (the message tells), and
"stream disconnected" for a content filter. A line of type error on stdout announces a retry; only `turn.failed` ends a
turn. Times in its messages are local to the agent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from relight.journal.failures import reset, texts
from relight.journal.failures.finding import Finding, by_status
from relight.journal.failures.lenient import mapping, number, one_line, pick, plain, sentence, status_code, word
from relight.values.ending import Ending, FailureClass, ResetSource

NAME: Final = "codex"
PROVIDER: Final = "openai"
CONTEXT_PROMPT: Final[str | None] = None
_INFO: Final[Mapping[str, FailureClass]] = {
    "usage_limit_exceeded": "usage_limit",
    "rate_limit_exceeded": "rate_limit",
    "server_overloaded": "overloaded",
    "internal_server_error": "server_error",
    "context_window_exceeded": "context",
    "session_budget_exceeded": "max_budget",
    "model_not_found": "model_not_found",
    "invalid_prompt": "refused",
    "cyber_policy": "refused",
    "misalignment_policy_violation": "refused",
    "unauthorized": "auth",
}
_CONNECTION: Final = frozenset(
    {"http_connection_failed", "response_stream_connection_failed", "response_stream_disconnected"}
)
_MODEL: Final = re.compile(r"usage limit for ([\w.\- ]{1,60}?)\. ", re.IGNORECASE)
_FULL_PERCENT: Final = 99.5


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """How the last turn ended."""

    failed: bool
    aborted: bool = False
    message: str = ""
    info: Any = None
    said: int


def is_unfinished(ending: Ending) -> bool:
    """Codex's exit code 0 is always an end of its own."""
    return False


def find(ending: Ending) -> Finding | None:
    """What Codex's own records say about this end, or None."""
    kept, reported = _last_turn(ending.transcript, ending.now_us), _last_turn(ending.lines, ending.now_us)
    turn = kept if kept is not None and (kept.failed or reported is None or not reported.failed) else reported
    if turn is None or (not turn.failed and reported is None and ending.exit_code not in {0, None}):
        return None
    source: Any = "transcript" if turn is kept else "result"
    if turn.aborted:
        return Finding(kind="interrupted", source=source, text=one_line(turn.message))
    if not turn.failed:
        return Finding(kind="ok", source=source)
    limits = _limits((*ending.lines, *ending.transcript))
    kind = _class_of(turn, limits) or "unknown"
    when, how = _reset(turn, limits, ending) if kind == "usage_limit" else (None, None)
    return Finding(
        kind=kind,
        source=source,
        text=one_line(turn.message),
        reset_us=when,
        reset_source=how,
        model=_model(turn) if kind == "usage_limit" else None,
        fields=_fields(turn, limits, kind),
    )


def _last_turn(lines: Sequence[Any], now_us: int) -> Turn | None:
    """The last turn that ended, if none has begun since."""
    turn: Turn | None = None
    for line in lines:
        event = mapping(pick(line, "payload")) if pick(line, "type") == "event_msg" else mapping(line)
        match pick(event, "type"):
            case "task_started" | "turn.started" | "turn_started" | "user_message":
                turn = None
            case "task_complete" | "turn_complete":
                turn = _ended(pick(event, "error"), turn, reset.said_us(line, now_us))
            case "turn.completed":
                turn = Turn(failed=False, said=now_us)
            case "turn_aborted":
                reason = sentence(pick(event, "reason"))
                turn = Turn(failed=True, aborted=True, message=reason, said=reset.said_us(line, now_us))
            case "turn.failed":
                turn = _ended(mapping(pick(event, "error")) or {"message": ""}, turn, now_us)
            case "error" if pick(event, "codex_error_info", "codexErrorInfo") is not None:
                turn = _ended(event, None, reset.said_us(line, now_us))
            case _:
                pass
    return turn


def _ended(error: Any, before: Turn | None, said: int) -> Turn:
    """The end of a turn; an error reported a line earlier fills in what it lacks."""
    info = pick(error, "codex_error_info", "codexErrorInfo")
    if before is not None and before.failed and (error is None or info is None):
        message = sentence(pick(error, "message")) or before.message
        return Turn(failed=True, message=message, info=before.info, said=said)
    return Turn(failed=error is not None, message=sentence(pick(error, "message")), info=info, said=said)


def _class_of(turn: Turn, limits: dict[str, Any]) -> FailureClass | None:
    name, status = _name_and_status(turn.info)
    said = texts.class_of(turn.message)
    if name == "usage_limit_exceeded":
        return "billing" if said == "billing" or _is_money(limits) else "usage_limit"
    if name in _INFO:
        return _INFO[name]
    if status == 429 and said in {"billing", "usage_limit"}:
        return said
    if (kind := by_status(status)) is not None:
        return kind
    return said or ("network" if name in _CONNECTION and status is None else None)


def _name_and_status(info: Any) -> tuple[str, int | None]:
    """`"other"`, or `{"http_connection_failed": {"http_status_code": 503}}`."""
    if isinstance(info, dict) and len(info) == 1:
        [(name, inside)] = info.items()
        return word(name), status_code(pick(inside, "http_status_code", "httpStatusCode"))
    return word(info), None


def _is_money(limits: dict[str, Any]) -> bool:
    """Whether credits are used up or a spend cap is reached, by the workspace's own field."""
    reached = pick(limits, "rate_limit_reached_type", "rateLimitReachedType")
    kind = word(pick(reached, "type") if isinstance(reached, dict) else reached)
    return kind.startswith("workspace_") or pick(limits, "spend_control_reached", "spendControlReached") is True


def _limits(lines: Sequence[Any]) -> dict[str, Any]:
    """The last rate limits reported; missing windows come from the last report that had some."""
    reported = [
        limits
        for line in lines
        if isinstance(limits := _limits_in(line), dict)  # null in every line of a run without a response
    ]
    if not reported:
        return {}
    windows = next((limits for limits in reversed(reported) if pick(limits, "primary", "secondary") is not None), {})
    return {**reported[-1], "primary": windows.get("primary"), "secondary": windows.get("secondary")}


def _limits_in(line: Any) -> Any:
    names = ("rate_limits", "rateLimits")
    return pick(line, *names) or pick(pick(line, "payload"), *names)


def _reset(turn: Turn, limits: dict[str, Any], ending: Ending) -> tuple[int | None, ResetSource | None]:
    """A window that is used up; else the message; else the window that is nearest to its end."""
    windows = [(used, at) for used, at in map(_window, (limits.get("primary"), limits.get("secondary"))) if at]
    full = [at for used, at in windows if used >= _FULL_PERCENT]
    if full:
        return max(full), "field"
    said = reset.from_text(turn.message, said=turn.said, timezone=ending.timezone)
    if said is None and (seconds := reset.in_text(turn.message)) is not None:
        said = turn.said + round(seconds * reset.SECOND_US)
    if said is not None:
        return said, "text"
    return (max(windows)[1], "field") if windows else (None, None)


def _window(window: Any) -> tuple[float, int | None]:
    used = number(pick(window, "used_percent", "usedPercent")) or 0.0
    return used, reset.epoch_us(pick(window, "resets_at", "resetsAt"))


def _model(turn: Turn) -> str | None:
    named = _MODEL.search(plain(turn.message))
    return named[1].lower() if named else None


def _fields(turn: Turn, limits: dict[str, Any], kind: FailureClass) -> dict[str, str | int | float | bool | None]:
    found: dict[str, str | int | float | bool | None] = {}
    name, status = _name_and_status(turn.info)
    if (status := status or texts.status_in(turn.message)) is not None:
        found["status"] = status
    if name:
        found["code"] = name
    if kind in {"usage_limit", "billing"} and (limit := word(pick(limits, "limit_id", "limitId"))):
        found["limit"] = limit
    if kind == "rate_limit" and (seconds := reset.in_text(turn.message)) is not None:
        found["retry_after_seconds"] = seconds
    return found
