"""Hook events in the form of Claude Code and Codex, which our own extensions of other agents use too."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from relight.ports.agent import Decision, Heard, Hooks

_KINDS: Final[dict[str, Any]] = {
    "PreModelRequest": "model_begins",
    "PreToolUse": "tool_begins",
    "PostToolUse": "tool_ended",
    "PostToolUseFailure": "tool_ended",
    "Stop": "turn_ended",
    "SessionStart": "session_began",
    "SessionEnd": "session_ended",
}
HOOK_SECONDS: Final = 60
HELD_SECONDS: Final = 24 * 3600
"""time-out of a hook whose call may wait: for the calls beside it, then for the end of its agent"""


def parse(
    payload: Mapping[str, Any],
    *,
    native: str | None,
    transcript: Path | None,
    subagent: Any,
    also: tuple[str, ...] = (),
) -> Heard | None:
    """An event; None if it is in another form. Whose session it is was found out by the caller: a path in the event is
    not trusted."""
    event = payload.get("hook_event_name")
    if not isinstance(event, str):
        return None
    failed, result = event == "PostToolUseFailure", payload.get("tool_response")
    return Heard(
        kind=_KINDS.get(event, "other"),
        native_id=native,
        transcript=transcript,
        call=_text(payload, "tool_use_id"),
        tool=_text(payload, "tool_name"),
        also=also,
        arguments=payload.get("tool_input"),
        result=payload.get("error") if failed and result is None else result,
        failed=failed or payload.get("failed") is True,
        subagent=subagent if isinstance(subagent, str) else "",
    )


def reply(heard: Heard, decision: Decision, reason: str, *, wait: str = "deny") -> Mapping[str, Any] | None:
    """The reply to a PreToolUse event. `wait`: the reason given for a call that has to wait."""
    if heard.kind != "tool_begins":
        return None
    said = wait if decision == "wait" else decision
    return {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": said,
            "permissionDecisionReason": reason,
        }
    }


def guarded(hooks: Hooks) -> str:
    """The command of a PreToolUse hook if calls need approval: no call runs without its reply."""
    # Run by a shell that exits with 2 on any failure, the only code that blocks the call. A hook that cannot even be
    # started would let the call run otherwise.
    unasked = shlex.quote(
        "relight's hook could not run, so no person could be asked to approve this call; it was not run"
    )
    return f"{shlex.join((*hooks.command, hooks.deny))} || {{ echo {unasked} >&2; exit 2; }}"


def _text(payload: Mapping[str, Any], field: str) -> str:
    value = payload.get(field)
    return value if isinstance(value, str) else ""
