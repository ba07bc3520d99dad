"""pi's extension, given to it by `--extension` if calls need approval: pi waits for it before each tool call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from relight.agents.native import extension, hook_events
from relight.agents.native.names import is_id
from relight.agents.pi import directories
from relight.ports.agent import Heard, Hooks, Launch, Surroundings

_OWN: Final = """\
const about = (event, ctx) => ({
  session_id: ctx.sessionManager.getSessionId(),
  tool_use_id: event.toolCallId,
  tool_name: event.toolName,
  tool_input: event.input,
})

export default function (pi) {
  pi.on("tool_call", async (event, ctx) => {
    const why = await refusal(about(event, ctx))
    if (why) return { block: true, reason: why }
  })
  pi.on("tool_result", async (event, ctx) => {
    const text = event.content.map((part) => (part.type === "text" ? part.text : "")).join("\\n")
    await ended({ ...about(event, ctx), tool_response: text, failed: event.isError })
  })
}
"""


def with_extension(launch: Launch, hooks: Hooks | None, at: int) -> Launch:
    """The launch with the extension, whose flag comes after so many words of the command."""
    if hooks is None or not hooks.approve:
        return launch
    file = hooks.file.with_name("relight.mjs")
    command = (*launch.command[:at], "--extension", str(file), *launch.command[at:])
    return msgspec.structs.replace(launch, command=command, files={file: extension.script(hooks, _OWN)})


def hears(payload: Mapping[str, Any], surroundings: Surroundings) -> Heard | None:
    """Parse an event of the extension."""
    named = payload.get("session_id")
    native = named if is_id(named) else None
    transcript = directories.locate(native, surroundings) if native is not None else None
    return hook_events.parse(payload, native=native, transcript=transcript, subagent="")
