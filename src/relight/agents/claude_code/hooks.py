"""Claude Code's hook events and replies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from relight.agents.claude_code import directories
from relight.agents.native import hook_events
from relight.agents.native.names import is_id
from relight.ports.agent import Decision, Heard, Surroundings


def hears(payload: Mapping[str, Any], surroundings: Surroundings) -> Heard | None:
    """Parse a hook event; None if it is not from Claude Code."""
    named = payload.get("session_id")
    native = named if isinstance(named, str) and is_id(named) else None
    transcript = directories.locate(native, surroundings) if native is not None else None
    return hook_events.parse(payload, native=native, transcript=transcript, subagent=payload.get("agent_id"))


def decides(heard: Heard, decision: Decision, reason: str) -> Mapping[str, Any] | None:
    """The reply to a PreToolUse event. A call that has to wait is deferred: the run ends, and asks again."""
    return hook_events.reply(heard, decision, reason, wait="defer")
