"""A hook of ours in Codex that asks before each model call, for sessions with a limit of money or tokens.

It is given with the command, so that no file of the user's is changed, and it comes beside the user's own hooks. Codex
runs a hook only if the one who runs it has trusted exactly this command: its trust is a digest of the hook, and comes
with the command too. It vouches for this one hook; a project's hooks are as untrusted as before.

A Codex that does not know this event runs without the gate; its limit is then seen after the reply that reached it.
"""

from __future__ import annotations

import json
import shlex
from hashlib import sha256
from typing import Final

from relight.ports.agent import Hooks

EVENT: Final = "PreModelRequest"
_EVENT_KEY: Final = "pre_model_request"
_SOURCE: Final = "/<session-flags>/config.toml"
"""how Codex names what stands in its command line"""
_SECONDS: Final = 60


def arguments(hooks: Hooks) -> tuple[str, ...]:
    """The flags that put the gate in."""
    run = {"type": "command", "command": shlex.join(hooks.command), "timeout": _SECONDS}
    digest = _digest({**run, "async": False})
    hook = ",".join(f"{name}={json.dumps(value)}" for name, value in run.items())
    key = json.dumps(f"{_SOURCE}:{_EVENT_KEY}:0:0")
    trust = f'hooks.state={{{key}={{trusted_hash="sha256:{digest}"}}}}'
    return ("--config", f"hooks.{EVENT}=[{{hooks=[{{{hook}}}]}}]", "--config", trust)


def _digest(handler: dict[str, object]) -> str:
    """Of the hook as Codex normalises it: sorted keys, no blanks."""
    identity = {"event_name": _EVENT_KEY, "hooks": [handler]}
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return sha256(text.encode()).hexdigest()
