"""Gemini CLI's hook events, and the extension that installs our hooks.

Gemini CLI takes hooks from its settings, which are the user's, and from extensions in its home; it has no flag for
them. So there is an extension `relight` in its home. It is the same for all sessions and does nothing in a process that
relight did not start. Hooks of extensions run beside the user's own.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from relight.agents.gemini import directories
from relight.agents.gemini.format import REPLY, parts_of
from relight.agents.gemini.records import call_id, resolved
from relight.agents.native import jsonl
from relight.agents.native.configuration import read_configuration
from relight.agents.native.names import is_id
from relight.journal.formats.content import text_of
from relight.ports.agent import Heard, Hooks, Surroundings
from relight.ports.hooks import SOCKET_VARIABLE

_KINDS: Final[dict[str, Any]] = {
    "BeforeTool": "tool_begins",
    "AfterTool": "tool_ended",
    "BeforeModel": "model_begins",
    "AfterAgent": "turn_ended",
}
_COMMAND_VARIABLE: Final = "RELIGHT_GEMINI_HOOK"
_GATE_VARIABLE: Final = "RELIGHT_GEMINI_GATE"
_MILLISECONDS: Final = 60_000
_NAME: Final = "relight"


def files(surroundings: Surroundings) -> dict[Path, bytes]:
    """The files of the extension that are missing or differ."""
    directory = directories.gemini_home(surroundings) / "extensions" / _NAME
    about = "Reports tool calls to relight in processes that it has started; does nothing in others."
    wanted = {
        "hooks/hooks.json": {"hooks": {event: [_group(event)] for event in _KINDS}},
        # Without it, a user who allows certain extensions only could not start Gemini CLI.
        ".gemini-extension-install.json": {"source": str(directory), "type": "local"},
        "gemini-extension.json": {"name": _NAME, "version": "1.0.0", "description": about},
    }
    return {
        directory / name: json.dumps(content, indent=1).encode()
        for name, content in wanted.items()
        if read_configuration(directory / name) != content
    }


def environment(hooks: Hooks) -> dict[str, str]:
    """Variables of a process in which the extension is to report."""
    gate = {_GATE_VARIABLE: "1"} if hooks.gate else {}
    return {_COMMAND_VARIABLE: shlex.join(hooks.command), **gate}


def _group(event: str) -> dict[str, Any]:
    needed = _GATE_VARIABLE if event == "BeforeModel" else SOCKET_VARIABLE
    command = f'test -z "${needed}" || eval "exec ${_COMMAND_VARIABLE}"'
    return {"matcher": "*", "hooks": [{"type": "command", "command": command, "timeout": _MILLISECONDS}]}


def hears(payload: Mapping[str, Any], surroundings: Surroundings) -> Heard | None:
    """Parse a hook event; None if it is not from Gemini CLI."""
    event, native = payload.get("hook_event_name"), payload.get("session_id")
    if not isinstance(event, str):
        return None
    native = native if isinstance(native, str) and is_id(native) else None
    path = directories.locate(native, surroundings) if native is not None else None
    tool = text_of(payload.get("original_request_name")) or text_of(payload.get("tool_name"))
    given = payload.get("tool_response")
    response: dict[str, Any] = given if isinstance(given, dict) else {}
    return Heard(
        kind=_KINDS.get(event, "other"),
        native_id=native,
        transcript=path,
        call=call_id(_last_reply(path), tool, payload.get("tool_input")) if tool else "",
        tool=tool,
        arguments=payload.get("tool_input"),
        result=_result(response),
        failed=bool(response.get("error")),
    )


def _last_reply(path: Path | None) -> str:
    """The id of the last reply on disk: it is written before its tools are run, and no other before they have ended."""
    try:
        raw = path.read_bytes() if path is not None else b""
    except OSError:
        raw = b""
    for line in reversed(raw.splitlines()):
        found = jsonl.parse(line).lines
        for record in reversed(resolved(found)):
            if record.get("type") == REPLY:
                return str(record["id"])
    return ""


def _result(response: Mapping[str, Any]) -> Any:
    """What the model is told: a text, or the texts of its parts."""
    content = response.get("llmContent")
    texts = [part["text"] for part in parts_of(content) if isinstance(part.get("text"), str)]
    return "\n".join(texts) if texts or content is None else content
