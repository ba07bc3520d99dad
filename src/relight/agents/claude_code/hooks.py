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


def hears(told: Mapping[str, Any], surroundings: Surroundings) -> Heard | None:
    """Parse a hook event; None if it is not from Claude Code."""
    event = told.get("hook_event_name")
    if not isinstance(event, str):
        return None
    native = told.get("session_id")
    native = native if isinstance(native, str) and is_id(native) else None
    failed = event == "PostToolUseFailure"
    return Heard(
        kind=_KINDS.get(event, "other"),
        native_id=native,
        transcript=_transcript(native, surroundings),
        call=_text(told, "tool_use_id"),
        tool=_text(told, "tool_name"),
        arguments=told.get("tool_input"),
        result=told.get("error") if failed and told.get("tool_response") is None else told.get("tool_response"),
        failed=failed,
        sidechain=bool(told.get("agent_id")),
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


def _text(told: Mapping[str, Any], field: str) -> str:
    value = told.get(field)
    return value if isinstance(value, str) else ""
