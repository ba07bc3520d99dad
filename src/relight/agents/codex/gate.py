"""The gate: a hook in Codex that asks before each model call, for sessions with a budget or token limit.

It is passed on the command line, so that no file of the user is changed, and runs beside the user's own hooks. Codex
runs a hook only if the user trusts exactly this command; trust is a digest of the hook, and is passed on the command
line too. It covers this hook only: a project's hooks are as untrusted as before.

A Codex that does not know this event runs without the gate; its limit is then noticed after the reply that reached it.
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
"""Codex's name for configuration from its command line"""
_SECONDS: Final = 60


def arguments(hooks: Hooks) -> tuple[str, ...]:
    """The flags that install the gate and its trust."""
    run = {"type": "command", "command": shlex.join(hooks.command), "timeout": _SECONDS}
    digest = _digest({**run, "async": False})
    hook = ",".join(f"{name}={json.dumps(value)}" for name, value in run.items())
    key = json.dumps(f"{_SOURCE}:{_EVENT_KEY}:0:0")
    trust = f'hooks.state={{{key}={{trusted_hash="sha256:{digest}"}}}}'
    return ("--config", f"hooks.{EVENT}=[{{hooks=[{{{hook}}}]}}]", "--config", trust)


def _digest(handler: dict[str, object]) -> str:
    """The digest of a hook as Codex computes it: of its JSON with sorted keys and without spaces."""
    identity = {"event_name": _EVENT_KEY, "hooks": [handler]}
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return sha256(text.encode()).hexdigest()
