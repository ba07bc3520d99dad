"""opencode's plugin, named in its configuration if calls need approval: opencode waits for it before each tool call.

It is given by OPENCODE_CONFIG_CONTENT, added to what the user has there; no file is changed. OPENCODE_PERMISSION
forbids every tool, and the plugin takes that back when opencode loads it: without the plugin no tool runs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from relight.agents.native import argv, extension, hook_events
from relight.agents.opencode import database
from relight.errors import UsageError
from relight.ports.agent import Heard, Hooks, Launch, Surroundings

_CONTENT: Final = "OPENCODE_CONFIG_CONTENT"
_PERMISSION: Final = "OPENCODE_PERMISSION"
_PURE: Final = "OPENCODE_PURE"
_EVERYTHING: Final = "?*"
"""a pattern that matches every permission, in a form that only this plugin writes"""
_OWN: Final = """\
const about = (call, args) => ({
  session_id: call.sessionID,
  tool_use_id: call.callID,
  tool_name: call.tool,
  tool_input: args,
})

export const relight = async () => ({
  config: async (config) => {
    if (config.permission) delete config.permission["?*"]
  },
  "tool.execute.before": async (call, output) => {
    const why = await refusal(about(call, output.args))
    if (why) throw new Error(why)
  },
  "tool.execute.after": async (call, output) => {
    await ended({ ...about(call, call.args), tool_response: String(output?.output ?? "") })
  },
})
"""


def with_plugin(launch: Launch, hooks: Hooks | None, line: argv.CommandLine, surroundings: Surroundings) -> Launch:
    """The launch with the plugin. UsageError if its flags or its environment keep plugins out."""
    if hooks is None or not hooks.approve:
        return launch
    environment = surroundings.environment
    if line.has("--pure") or environment.get(_PURE, "") not in ("", "0", "false"):
        raise UsageError(
            "opencode cannot be made to wait for a decision without plugins",
            hints=["leave out --approve, or --pure (and OPENCODE_PURE)"],
        )
    file = hooks.file.with_name("relight.mjs")
    config, permission = _object(environment, _CONTENT), _object(environment, _PERMISSION)
    named = config.get("plugin", [])
    config["plugin"] = [*(named if isinstance(named, list) else []), file.as_uri()]
    added = {_CONTENT: json.dumps(config), _PERMISSION: json.dumps({**permission, _EVERYTHING: "deny"})}
    files = {**launch.files, file: extension.script(hooks, _OWN)}
    return msgspec.structs.replace(launch, files=files, environment={**launch.environment, **added})


def _object(environment: Mapping[str, str], name: str) -> dict[str, Any]:
    """A variable that holds a JSON object; empty if it is not set."""
    try:
        found = json.loads(environment.get(name) or "{}")
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise UsageError(f"{name} is not a JSON object, so relight cannot add its plugin; opencode was not started")
    return found


def hears(payload: Mapping[str, Any], surroundings: Surroundings) -> Heard | None:
    """Parse an event of the plugin. The session of a sub-agent is not the session's own."""
    named = payload.get("session_id")
    path = database.locate(named, surroundings) if isinstance(named, str) else None
    helper = path is not None and database.is_helper(path)
    native, subagent, transcript = (None, named, None) if helper else (named if path is not None else None, "", path)
    return hook_events.parse(payload, native=native, transcript=transcript, subagent=subagent)
