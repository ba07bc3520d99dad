"""Codex's hooks: before and after each tool call, and before each model call if there is a limit.

They are passed on the command line, so that no file of the user is changed, and run beside the user's own hooks. Codex
runs a hook only if the user trusts exactly this command; trust is a digest of the hook, and is passed on the command
line too. It covers these hooks only: a project's hooks are as untrusted as before.

What is weaker than in Claude Code: only shell commands, patches and tools of MCP servers are reported, the end of a
patch is not, and a user can switch hooks off; so calls are taken from the rollout as well. With approvals they are
switched on, and a command line that would replace them is refused.
"""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import msgspec

from relight.agents.codex import directories, rollout
from relight.agents.native import argv, hook_events, jsonl
from relight.agents.native.names import is_id
from relight.errors import UsageError
from relight.ports.agent import Heard, Hooks, NativeCall, Surroundings

REPORTED: Final = ("exec_command", "shell", "shell_command", "local_shell", "apply_patch", "mcp__*")
"""the tools whose calls are reported"""
_KEYS: Final = {"PreModelRequest": "pre_model_request", "PreToolUse": "pre_tool_use", "PostToolUse": "post_tool_use"}
_SOURCE: Final = "/<session-flags>/config.toml"
"""Codex's name for configuration from its command line"""
_ALSO: Final = {"apply_patch": ("Edit", "Write")}
_TAIL_BYTES: Final = 4 * 1024 * 1024
_WAIT_SECONDS: Final = 1.0
_LOOK_SECONDS: Final = 0.02


def arguments(hooks: Hooks, line: argv.CommandLine) -> tuple[str, ...]:
    """The flags that install the hooks and their trust. UsageError if calls need approval and the user's own flags
    would replace them."""
    if hooks.approve:
        _refuse_replaced(line)
    flags, trusted = list[str](), list[str]()
    for event in ("PreToolUse", "PostToolUse", *(("PreModelRequest",) if hooks.gate else ())):
        waits = bool(hooks.approve) and event == "PreToolUse"
        command = hook_events.guarded(hooks) if waits else shlex.join(hooks.command)
        seconds = hook_events.HELD_SECONDS if waits else hook_events.HOOK_SECONDS
        run = {"type": "command", "command": command, "timeout": seconds}
        written = ",".join(f"{name}={json.dumps(value)}" for name, value in run.items())
        flags += ["--config", f"hooks.{event}=[{{hooks=[{{{written}}}]}}]"]
        key = json.dumps(f"{_SOURCE}:{_KEYS[event]}:0:0")
        trusted.append(f'{key}={{trusted_hash="sha256:{_digest(_KEYS[event], {**run, "async": False})}"}}')
    flags += ["--config", f"hooks.state={{{','.join(trusted)}}}"]
    return (*flags, "--config", "features.hooks=true") if hooks.approve else tuple(flags)


def _refuse_replaced(line: argv.CommandLine) -> None:
    """UsageError for flags with which Codex would not run our hooks."""
    settings = [value for part in line.parts if part.name == "--config" for value in part.values]
    replaced = [
        one for one in settings if one.replace('"', "").strip().startswith(("hooks", "features.hooks", "features="))
    ]
    disabled = [part for part in line.parts if part.name == "--disable" and "hooks" in part.values]
    if replaced or disabled:
        hints = ["leave out --approve, or these flags of Codex"]
        raise UsageError("Codex cannot be made to wait for a decision if its flags change its hooks", hints=hints)


def _digest(event: str, handler: dict[str, object]) -> str:
    """The digest of a hook as Codex computes it: of its JSON with sorted keys and without spaces."""
    identity = {"event_name": event, "hooks": [handler]}
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return sha256(text.encode()).hexdigest()


def hears(payload: Mapping[str, Any], surroundings: Surroundings) -> Heard | None:
    """Parse a hook event; None if it is not one of ours."""
    if payload.get("hook_event_name") not in _KEYS:
        return None
    named = payload.get("session_id")
    known = isinstance(named, str) and is_id(named)
    path = directories.locate(str(named), directories.sessions_of(surroundings)) if known else None
    # A sub-agent's thread is not the session's.
    helper = path is not None and rollout.is_helper(jsonl.first(path) or {})
    native, tool = (named if path is not None and not helper else None), str(payload.get("tool_name") or "")
    given = dict(payload)
    begins = payload["hook_event_name"] == "PreToolUse"
    call = _whole(path, payload) if begins else None
    if call is not None:
        given |= {"tool_name": call.name, "tool_input": call.arguments}
    also = (tool, *_ALSO.get(tool, ()))
    subagent, transcript = (named, None) if helper and tool else ("", None if helper else path)
    heard = hook_events.parse(given, native=native, transcript=transcript, subagent=subagent, also=also)
    return msgspec.structs.replace(heard, partial=begins and call is None) if heard is not None else None


def _whole(path: Path | None, payload: Mapping[str, Any]) -> NativeCall | None:
    """The call with its whole input, which only the rollout has: Codex writes it before it runs the hook. None if it is
    not there in time."""
    wanted, until = payload.get("tool_use_id"), time.monotonic() + _WAIT_SECONDS
    while path is not None and isinstance(wanted, str):
        found = rollout.pending(jsonl.read(path, after=max(0, path.stat().st_size - _TAIL_BYTES)).lines)
        if wanted in found:
            return found[wanted][0]
        if time.monotonic() > until:
            break
        time.sleep(_LOOK_SECONDS)
    return None
