"""The recorded form of an ending: one JSON object a case, as in tests/unit/journal/failures.jsonl.

People report an end that was judged wrongly in this form, and the tests replay it. Keys: agent, rc, and for Claude
Code result, assistant, rate_limit_info; for Codex message, codex_error_info, rate_limits; for others error, stdout,
stderr. A recording without a time is taken as said at `now_us`.
"""

from __future__ import annotations

from typing import Any

from relight.journal.failures import reset
from relight.journal.failures.lenient import mapping, number
from relight.values.ending import Ending


def ending_of(record: dict[str, Any], *, now_us: int, timezone: str = "UTC") -> Ending:
    """The ending that one recorded case describes."""
    code = number(record.get("rc", record.get("exit_code")))
    signal = number(record.get("signal"))
    own = number(record.get("own_signal"))
    lines = [*_listed(record.get("lines")), *_claude(record), *_codex(record), *_other(record)]
    return Ending(
        agent=str(record.get("agent", "command")),
        exit_code=None if code is None else int(code),
        signal=None if signal is None else int(signal),
        own_signal=None if own is None else int(own),
        lines=tuple(lines),
        transcript=tuple(_listed(record.get("transcript"))),
        stdout=_string(record.get("stdout")),
        stderr=_string(record.get("stderr")),
        oom_kills=int(number(record.get("oom_kills")) or 0),
        now_us=reset.said_us(record.get("assistant"), now_us),
        timezone=timezone,
    )


def _claude(record: dict[str, Any]) -> list[Any]:
    event = {"type": "rate_limit_event", "rate_limit_info": record.get("rate_limit_info")}
    reported = [
        event if mapping(record.get("rate_limit_info")) else None,
        record.get("assistant"),
        record.get("result"),
    ]
    return [line for line in reported if line is not None]


def _codex(record: dict[str, Any]) -> list[Any]:
    lines: list[Any] = []
    if mapping(record.get("rate_limits")):
        lines.append(_event({"type": "token_count", "rate_limits": record["rate_limits"]}))
    error = {name: record.get(name) for name in ("message", "codex_error_info")}
    if any(value is not None for value in error.values()):
        lines.append(_event({"type": "task_complete", "error": error}))
    return lines


def _event(payload: dict[str, Any]) -> dict[str, Any]:
    return {"type": "event_msg", "payload": payload}


def _other(record: dict[str, Any]) -> list[Any]:
    error = record.get("error")
    return [{"type": "error", "error": error}] if isinstance(error, dict) else []


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _string(value: Any) -> str:
    return value if isinstance(value, str) else ""
