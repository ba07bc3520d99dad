"""Claude Code's hook events and replies."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from relight.agents.claude_code import directories
from relight.agents.native.names import is_id
from relight.ports.agent import Decision, Heard, Surroundings

_KINDS: Final[dict[str, Any]] = {
    "PreToolUse": "tool_begins",
    "PostToolUse": "tool_ended",
    "PostToolUseFailure": "tool_ended",
    "Stop": "turn_ended",
    "SessionStart": "session_began",
    "SessionEnd": "session_ended",
}
_PERMISSIONS: Final[dict[Decision, str]] = {"allow": "allow", "deny": "deny", "wait": "defer"}


def hears(payload: Mapping[str, Any], surroundings: Surroundings) -> Heard | None:
    """Parse a hook event; None if it is not from Claude Code."""
    event = payload.get("hook_event_name")
    if not isinstance(event, str):
        return None
    native = payload.get("session_id")
    native = native if isinstance(native, str) and is_id(native) else None
    failed = event == "PostToolUseFailure"
    return Heard(
        kind=_KINDS.get(event, "other"),
        native_id=native,
        transcript=_transcript(native, surroundings),
        call=_text(payload, "tool_use_id"),
        tool=_text(payload, "tool_name"),
        arguments=payload.get("tool_input"),
        result=payload.get("error")
        if failed and payload.get("tool_response") is None
        else payload.get("tool_response"),
        failed=failed,
        subagent=_text(payload, "agent_id"),
    )


def decides(heard: Heard, decision: Decision, reason: str) -> Mapping[str, Any] | None:
    """The reply to a PreToolUse event."""
    if heard.kind != "tool_begins":
        return None
    output = {
        "hookEventName": "PreToolUse",
        "permissionDecision": _PERMISSIONS[decision],
        "permissionDecisionReason": reason,
    }
    return {"hookSpecificOutput": output}


def _transcript(native: str | None, surroundings: Surroundings) -> Path | None:
    """The transcript's path, found by the id in the agent's home; a path in the event is not trusted."""
    return directories.locate(native, surroundings) if native is not None else None


def _text(payload: Mapping[str, Any], field: str) -> str:
    value = payload.get(field)
    return value if isinstance(value, str) else ""
