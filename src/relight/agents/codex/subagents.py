"""Sub-agents of Codex: threads with rollouts of their own, which name the thread that began them.

A call of `spawn_agent` has a result at once, with the id of the thread. The report comes with a call of `wait_agent`,
or as a notification in the name of the user.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from relight.agents.codex import directories, follower, rollout, rollout_lines
from relight.agents.native import jsonl
from relight.agents.native.follower import FileFollower
from relight.agents.native.names import inside, is_id
from relight.ports.agent import Line, SubAgent

_UUID: Final = r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})"
_REPORTED: Final = re.compile(rf'"{_UUID}"\s*(?:,\s*"status")?\s*:\s*\{{\s*"(?:completed|errored)"', re.ASCII)
_OUTPUT: Final = "function_call_output"


class CodexSubAgents:
    """Implements `SubAgents` of ports/agent.py."""

    tools = frozenset({"spawn_agent"})
    told = staticmethod(rollout_lines.told)

    def begun(self, path: Path, known: Container[str]) -> list[SubAgent]:
        native, home = directories.id_of(path), directories.home_above(path)
        found: list[SubAgent] = []
        for one in directories.since(path):
            name = directories.id_of(one)
            if name in known or name == native or inside(one, home) is None:
                continue
            try:
                parent, task = _meta(str(one))
            except ValueError:
                continue  # its first line is not whole yet
            if parent == native:
                found.append(SubAgent(id=name, path=one, task=task))
        return found

    def follow(self, one: SubAgent) -> FileFollower:
        return follower.follow(one.path)

    def spawned(self, lines: Sequence[Line]) -> dict[str, str]:
        found: dict[str, str] = {}
        for payload in map(rollout.payload_of, lines):
            named = _agent_in(payload.get("output")) if payload.get("type") == _OUTPUT else None
            if named is not None and isinstance(payload.get("call_id"), str):
                found[named] = payload["call_id"]
        return found

    def reported(self, lines: Sequence[Line]) -> set[str]:
        return {name for line in lines for text in _texts(rollout.payload_of(line)) for name in _REPORTED.findall(text)}

    def failure_in(self, line: Line) -> str | None:
        return None  # reported to the parent; the child's own transcript does not say it

    def report_in(self, result: Any) -> None:
        """All of them run in the background."""

    def how_to_continue(self, one: str) -> str:
        return f"continue it with resume_agent and the id {one}, then send_input, instead of starting another"


@lru_cache(maxsize=4096)
def _meta(path: str) -> tuple[str | None, str | None]:
    """The thread that began this one, and its name; ValueError while its first line is not written."""
    first = jsonl.first(Path(path))
    if first is None:
        raise ValueError(path)
    payload = rollout.payload_of(first)
    parent, name = payload.get("parent_thread_id"), payload.get("agent_nickname")
    return parent if isinstance(parent, str) else None, name if isinstance(name, str) else None


def _agent_in(output: Any) -> str | None:
    try:
        given = json.loads(output) if isinstance(output, str) else None
    except ValueError:
        return None
    named = given.get("agent_id") if isinstance(given, dict) else None
    return named if is_id(named) else None


def _texts(payload: dict[str, Any]) -> list[str]:
    if payload.get("type") == _OUTPUT:
        return [payload["output"]] if isinstance(payload.get("output"), str) else []
    content = payload.get("content") if payload.get("role") == "user" else None
    blocks = [one for one in content if isinstance(one, dict)] if isinstance(content, list) else []
    return [text for one in blocks if isinstance(text := one.get("text"), str)]
