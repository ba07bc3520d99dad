"""Events by which Codex's screen shows a thread: it does not read the items themselves.

A thread that we write gets such events for the messages of user and model; without them the model would know the
conversation, but the screen would be empty. They are not part of the conversation, and are skipped when read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from relight.agents.codex.format import CODEX
from relight.agents.codex.rollout import ITEM, payload_of
from relight.agents.native.names import derived_id, micros
from relight.ports.agent import Line
from relight.values.view import Text


def shown(line: Line, native_id: str) -> Iterator[Line]:
    """The events of one line; none for most."""
    payload = payload_of(line)
    if line.get("type") != ITEM or payload.get("type") != "message":
        return
    [view] = CODEX.read([line])
    text = "\n".join(block.text for block in view.blocks if isinstance(block, Text))
    if view.role not in ("user", "assistant") or not text:
        return
    turn = _turn(payload) or derived_id("turn", native_id, text)
    at_us = micros(line.get("timestamp")) or 0
    if view.role == "user":
        yield _event(line, {"type": "task_started", "turn_id": turn, "started_at": at_us // 1_000_000})
        content: dict[str, Any] = {"type": "text", "text": text, "text_elements": []}
        item = {"type": "UserMessage", "id": derived_id("shown", turn, text), "content": [content]}
    else:
        item = {
            "type": "AgentMessage",
            "id": payload.get("id") or derived_id("shown", turn, text),
            "content": [{"type": "Text", "text": text}],
        }
    times = {"started_at_ms": at_us // 1000, "completed_at_ms": at_us // 1000}
    yield _event(line, {"type": "item_completed", "thread_id": native_id, "turn_id": turn, "item": item, **times})


def _turn(payload: dict[str, Any]) -> str | None:
    passed = payload.get("internal_chat_message_metadata_passthrough")
    turn = passed.get("turn_id") if isinstance(passed, dict) else None
    return turn if isinstance(turn, str) else None


def _event(line: Line, payload: dict[str, Any]) -> Line:
    return {"timestamp": line.get("timestamp"), "type": "event_msg", "payload": payload}
