"""The part that our extensions of agents written in JavaScript share: it asks the hook command about a tool call.

An extension is installed only if calls need approval. Whatever goes wrong (no program, no reply, a reply that is not
understood), the call does not run.
"""

from __future__ import annotations

import json
from typing import Final

from relight.ports.agent import Hooks

_ASK: Final = """\
import { spawn } from "node:child_process"

const run = (command, event) =>
  new Promise((resolve, reject) => {
    const child = spawn(command[0], command.slice(1), { stdio: ["pipe", "pipe", "ignore"] })
    let printed = ""
    child.on("error", reject)
    child.stdin.on("error", () => {})
    child.stdout.on("data", (data) => { printed += data })
    child.on("close", (code) => (code === 0 ? resolve(printed.trim()) : reject(new Error("exit code " + code))))
    child.stdin.end(JSON.stringify(event))
  })

// Why the call must not run; empty: it may.
const refusal = async (event) => {
  try {
    const printed = await run(BEFORE, { hook_event_name: "PreToolUse", ...event })
    if (printed === "") return ""
    const said = JSON.parse(printed).hookSpecificOutput
    if (said.permissionDecision === "allow") return ""
    return "not run: " + String(said.permissionDecisionReason || "it was not allowed")
  } catch {
    return "not run: relight's hook could not run, so no person could be asked to approve this call"
  }
}

const ended = async (event) => {
  try {
    await run(AFTER, { hook_event_name: "PostToolUse", ...event })
  } catch {
    // The transcript has the result too.
  }
}
"""


def script(hooks: Hooks, own: str) -> bytes:
    """The file of an extension: what is shared, then its own part."""
    before, after = json.dumps([*hooks.command, hooks.deny]), json.dumps(list(hooks.command))
    return f"const BEFORE = {before}\nconst AFTER = {after}\n{_ASK}\n{own}".encode()
