"""pi: the last reply of its session, and the lines of `pi --mode json`.

A reply that failed has `stopReason` error or aborted and an `errorMessage`, which is the provider's own text: there is
no class and no field for a reset. pi retries by itself (`auto_retry_start`); only the last reply tells how it ended.
"""

from __future__ import annotations

from typing import Any, Final

from relight.journal.failures import reset, texts
from relight.journal.failures.finding import Finding, by_status
from relight.journal.failures.lenient import mapping, one_line, pick, sentence
from relight.values.ending import Ending, Source

NAME: Final = "pi"
PROVIDER: Final = ""
CONTEXT_PROMPT: Final[str | None] = None


def is_unfinished(ending: Ending) -> bool:
    """Whether it exited with 0 in the middle of a turn; only with --mode json does it always print its end."""
    kinds = [pick(line, "type") for line in ending.lines]
    return "agent_start" in kinds and "agent_end" not in kinds


def find(ending: Ending) -> Finding | None:
    """What pi's own records say about this end, or None."""
    for source, lines in (("result", ending.lines), ("transcript", ending.transcript)):
        reply = next((one for line in reversed(lines) if (one := _reply(line))), None)
        if reply is not None:
            return _found(reply, "result" if source == "result" else "transcript", ending)
    return None


def _reply(line: Any) -> dict[str, Any]:
    """The reply in a line of the session or of the output that ends a message."""
    if pick(line, "type") not in ("message", "message_end"):
        return {}
    message = mapping(pick(line, "message"))
    return message if message.get("role") == "assistant" else {}


def _found(reply: dict[str, Any], source: Source, ending: Ending) -> Finding | None:
    reason, text = reply.get("stopReason"), sentence(reply.get("errorMessage"))
    if reason == "aborted":
        return Finding(kind="interrupted", source=source, text=one_line(text))
    if reason == "stop":
        return Finding(kind="ok", source=source)
    if reason == "length":
        return Finding(kind="output_limit", source=source)
    if reason != "error":
        return None
    status = texts.status_in(text)
    kind = texts.class_of(text) or by_status(status) or "unknown"
    when = reset.from_text(text, said=ending.now_us, timezone=ending.timezone) if kind == "usage_limit" else None
    seconds = reset.in_text(text)
    if when is None and kind == "usage_limit" and seconds is not None:
        when = ending.now_us + round(seconds * reset.SECOND_US)
    fields: dict[str, str | int | float | bool | None] = {"status": status} if status is not None else {}
    if kind == "rate_limit" and seconds is not None:
        fields["retry_after_seconds"] = seconds
    return Finding(
        kind=kind,
        source=source,
        text=one_line(text),
        reset_us=when,
        reset_source="text" if when is not None else None,
        fields=fields,
    )
