"""Ops: a shell command, a write or an edit, as a call of whichever tool the asking agent offers.

One script then drives all agents alike. Where an agent has no tool for a write or an edit, the shell does
it, an edit by `apply_patch`, which Codex takes over from its shell. So the old and new text of an edit are whole
lines, and paths are absolute, on which Claude Code insists.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from typing import Any

from tests.support.fake_model.script import Call


@dataclass(frozen=True, kw_only=True)
class Made:
    """A call with a name and arguments of the agent's own; `custom` is Responses' free-form kind."""

    id: str
    name: str
    input: Any
    custom: bool = False
    namespace: str = ""
    """of the tools that Responses offers in one"""


def offered(body: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The tools of a request, by name."""
    tools = body.get("tools")
    found: dict[str, dict[str, Any]] = {}
    for tool in tools if isinstance(tools, list) else []:
        if isinstance(tool, dict) and isinstance(tool.get("functionDeclarations"), list):
            found |= {str(one.get("name")): one for one in tool["functionDeclarations"]}
        elif isinstance(tool, dict):
            name = tool.get("name") or (tool.get("function") or {}).get("name") or tool.get("type")
            found[str(name)] = tool
            inner = tool.get("tools") if tool.get("type") == "namespace" else None
            found |= {str(one.get("name")): {**one, "namespace": name} for one in inner or () if isinstance(one, dict)}
    return found


def make(call: Call, tools: dict[str, dict[str, Any]], fallback_id: str) -> Made:
    """The call as this agent understands it."""
    name, given = (call.name, call.input) if not call.op else _translate(call.op, call.input, tools)
    custom = tools.get(name, {}).get("type") == "custom"
    namespace = str(tools.get(name, {}).get("namespace", ""))
    return Made(id=call.id or fallback_id, name=name, input=given, custom=custom, namespace=namespace)


def _translate(op: str, given: Any, tools: dict[str, dict[str, Any]]) -> tuple[str, Any]:
    if op == "shell":
        return _shell(str(given), tools)
    if op == "agent":
        return _agent(given, tools)
    path = given["path"]
    if op == "write" and "write_file" in tools:
        return "write_file", {"file_path": path, "content": given["content"]}
    if op == "edit" and "replace" in tools:
        said = {"file_path": path, "instruction": "scripted"}
        return "replace", {**said, "old_string": given["old"], "new_string": given["new"]}
    if op == "write" and "Write" in tools:
        return "Write", {"file_path": path, "content": given["content"]}
    if op == "edit" and "Edit" in tools:
        return "Edit", {"file_path": path, "old_string": given["old"], "new_string": given["new"]}
    fields = _fields(tools.get(op, {}))
    if op == "write" and fields:
        return "write", {"path" if "path" in fields else "filePath": path, "content": given["content"]}
    if op == "edit" and "edits" in fields:
        return "edit", {"path": path, "edits": [{"oldText": given["old"], "newText": given["new"]}]}
    if op == "edit" and fields:
        return "edit", {"filePath": path, "oldString": given["old"], "newString": given["new"]}
    if op == "write":
        return _shell(f"printf %s {shlex.quote(given['content'])} > {shlex.quote(path)}", tools)
    return _shell(f"apply_patch <<'RELIGHT_PATCH'\n{_patch(given)}\nRELIGHT_PATCH", tools)


def _agent(given: dict[str, Any], tools: dict[str, dict[str, Any]]) -> tuple[str, Any]:
    """A sub-agent; without `background` the call waits for it where the agent can."""
    prompt, description = given["prompt"], given.get("description", given["prompt"][:30])
    if "Agent" in tools:
        waits = {"run_in_background": bool(given.get("background"))}
        return "Agent", {"description": description, "prompt": prompt, "subagent_type": "general-purpose", **waits}
    if "spawn_agent" in tools:
        return "spawn_agent", {"message": prompt}
    return "task", {"description": description, "prompt": prompt, "subagent_type": "general"}


def _fields(tool: dict[str, Any]) -> set[str]:
    """The arguments of a tool of Chat Completions: those of pi and opencode differ."""
    parameters = (tool.get("function") or {}).get("parameters") or {}
    return set(parameters.get("properties") or ())


def _shell(command: str, tools: dict[str, dict[str, Any]]) -> tuple[str, Any]:
    if "Bash" in tools:
        return "Bash", {"command": command, "description": "scripted"}
    if "run_shell_command" in tools:
        return "run_shell_command", {"command": command, "description": "scripted"}
    if "exec_command" in tools:
        return "exec_command", {"cmd": command}
    if "shell" in tools:
        return "shell", {"command": ["bash", "-lc", command]}
    described = {"description": "scripted"} if "description" in _fields(tools.get("bash", {})) else {}
    return "bash", {"command": command, **described}


def _patch(given: dict[str, Any]) -> str:
    before = "".join(f"-{line}\n" for line in str(given["old"]).splitlines())
    after = "".join(f"+{line}\n" for line in str(given["new"]).splitlines())
    return f"*** Begin Patch\n*** Update File: {given['path']}\n@@\n{before}{after}*** End Patch"


def as_json(value: Any) -> str:
    """Arguments as the string OpenAI sends; a string stays as it is, even if it does not parse."""
    return value if isinstance(value, str) else json.dumps(value)
