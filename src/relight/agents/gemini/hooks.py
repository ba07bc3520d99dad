"""Gemini CLI's hook events, and the extension that installs our hooks.

Gemini CLI takes hooks from its settings, which are the user's, and from extensions in its home; it has no flag for
them. So there is an extension `relight` in its home. It is the same for all sessions and does nothing in a process that
relight did not start. Hooks of extensions run beside the user's own, and none of these can take back a denial.

A hook that does not run lets its call run. So with approvals, what would switch hooks or extensions off is refused
before each start, and the command of the hook denies the call if anything goes wrong in it.
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
from relight.agents.native import argv, hook_events, jsonl
from relight.agents.native.configuration import read_configuration
from relight.agents.native.names import is_id
from relight.errors import UsageError
from relight.journal.formats.content import text_of
from relight.ports.agent import Decision, Heard, Hooks, Surroundings

_KINDS: Final[dict[str, Any]] = {
    "BeforeTool": "tool_begins",
    "AfterTool": "tool_ended",
    "BeforeModel": "model_begins",
    "AfterAgent": "turn_ended",
}
# Variables with this prefix reach a hook even where Gemini CLI redacts the environment.
_TOOL_VARIABLE: Final = "GEMINI_CLI_RELIGHT_TOOL"
_EVENT_VARIABLE: Final = "GEMINI_CLI_RELIGHT_EVENT"
_GATE_VARIABLE: Final = "GEMINI_CLI_RELIGHT_GATE"
_VARIABLES: Final = {"BeforeTool": _TOOL_VARIABLE, "BeforeModel": _GATE_VARIABLE}
_NAME: Final = "relight"
_ALSO: Final = {"run_shell_command": ("Bash",), "replace": ("Edit",), "write_file": ("Write",), "read_file": ("Read",)}


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
    """Variables of a process in which the extension is to report: the command of each hook."""
    plain = f"exec {shlex.join(hooks.command)}"
    gate = {_GATE_VARIABLE: plain} if hooks.gate else {}
    return {_TOOL_VARIABLE: hook_events.guarded(hooks) if hooks.approve else plain, _EVENT_VARIABLE: plain, **gate}


def _group(event: str) -> dict[str, Any]:
    variable = _VARIABLES.get(event, _EVENT_VARIABLE)
    # One that is timed out lets its call run.
    seconds = hook_events.HELD_SECONDS if event == "BeforeTool" else hook_events.HOOK_SECONDS
    run = {"type": "command", "command": f'test -z "${variable}" || eval "${variable}"', "timeout": seconds * 1000}
    return {"matcher": "*", "hooks": [run]}


def refuse_silenced(line: argv.CommandLine, surroundings: Surroundings) -> None:
    """UsageError for flags and settings with which Gemini CLI would not run our hooks."""
    chosen = line.value("--extensions")
    known = read_configuration(directories.gemini_home(surroundings) / "extensions/extension-enablement.json")
    silenced = chosen is not None and _NAME not in [one.strip().lower() for one in chosen.split(",")]
    silenced = silenced or any(str(rule).startswith("!") for rule in _within(known, _NAME, "overrides") or ())
    for settings in directories.settings(surroundings):
        is_off = _within(settings, "hooksConfig", "enabled") is False
        is_off = is_off or _TOOL_VARIABLE in str(_within(settings, "hooksConfig", "disabled"))
        silenced = silenced or is_off or _within(settings, "admin", "extensions", "enabled") is False
    if silenced:
        hints = ["leave out --approve, or the flag or setting that disables hooks, or the extension relight"]
        raise UsageError("Gemini CLI cannot be made to wait for a decision if its hooks do not run", hints=hints)


def _within(config: Any, *names: str) -> Any:
    for name in names:
        config = config.get(name) if isinstance(config, dict) else None
    return config


def decides(heard: Heard, decision: Decision, reason: str) -> Mapping[str, Any] | None:
    """The reply to a BeforeTool event."""
    if heard.kind != "tool_begins":
        return None
    return {"decision": "allow" if decision == "allow" else "deny", "reason": reason}


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
        also=_ALSO.get(tool, ()),
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
    """The result that the model gets: a text, or the texts of its parts."""
    content = response.get("llmContent")
    texts = [part["text"] for part in parts_of(content) if isinstance(part.get("text"), str)]
    return "\n".join(texts) if texts or content is None else content
