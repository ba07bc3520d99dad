"""The adapter of Codex: implements ports/agent.py with the other modules of this package."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from relight.agents.codex import command_line, directories, follower, hooks, models, rollout
from relight.agents.codex import rollout_lines as making
from relight.agents.codex.dialect import CODEX_DIALECT
from relight.agents.codex.subagents import CodexSubAgents
from relight.agents.native import hook_events, jsonl
from relight.agents.native.argv import names
from relight.agents.native.defaults import CodingAgent
from relight.agents.native.names import is_id, timed_id
from relight.ports.agent import Capabilities, Line, NativeCall, Surroundings


class Codex(CodingAgent):
    """The adapter of Codex, named `codex`."""

    name = "codex"
    provider: str | None = "openai"
    capabilities = Capabilities(
        transcript=True,
        native_resume=True,
        hooks=True,
        hooks_may_be_off=True,
        reported=hooks.REPORTED,
        approvals=True,
        gate=True,
        interactive=True,
    )
    dialect = CODEX_DIALECT
    subagents = CodexSubAgents()
    follow = staticmethod(follower.follow)
    install_hint = "npm install -g @openai/codex"
    secrets = ("OPENAI_API_KEY", "CODEX_API_KEY", "CODEX_ACCESS_TOKEN")
    pure = names(
        "view_image update_plan read_file list_dir grep_files web_search tool_search list_mcp_resources"
        " list_mcp_resource_templates read_mcp_resource request_user_input get_context_remaining wait_agent"
    )
    # A patch that has been applied no longer fits, and fails without harm.
    idempotent = names("apply_patch")

    understand = staticmethod(command_line.understand)
    launch = staticmethod(command_line.launch)
    everywhere = staticmethod(directories.everywhere)
    sessions = staticmethod(directories.begun)
    key = staticmethod(rollout.key_of)
    hears = staticmethod(hooks.hears)
    decides = staticmethod(hook_events.reply)
    prompted = staticmethod(making.prompted)
    asked = staticmethod(making.asked)
    answered = staticmethod(making.answered)

    def configured_secrets(self, surroundings: Surroundings) -> tuple[str, ...]:
        named = directories.key_of(surroundings)
        return (named,) if named is not None else ()

    def native_id_of(self, command: Sequence[str]) -> str | None:
        found = command_line.understand(command)
        return found.named if found is not None and found.verb == "resume" and is_id(found.named) else None

    def model_of(self, command: Sequence[str], surroundings: Surroundings) -> str | None:
        found = command_line.understand(command)
        return models.model_of(found.line if found is not None else None, surroundings)

    def new_id(self) -> str | None:
        """An id for `write`; a thread cannot be started under a chosen id."""
        return timed_id()

    def locate(self, native_id: str, surroundings: Surroundings) -> Path | None:
        return directories.locate(native_id, directories.sessions_of(surroundings))

    def id_in_output(self, line: Line) -> str | None:
        named = line.get("thread_id") if line.get("type") == "thread.started" else None
        return named if isinstance(named, str) and is_id(named) else None

    def pending(self, lines: Sequence[Line]) -> list[NativeCall]:
        return [call for call, _ in rollout.pending(lines).values()]

    def write(self, lines: Iterable[Line], native_id: str, surroundings: Surroundings) -> Path:
        at_us = time.time_ns() // 1000
        path = directories.new_rollout(native_id, surroundings, at_us=at_us)
        directory = str(Path(surroundings.directory).resolve())
        providers = directories.providers_of(surroundings)
        jsonl.create(path, making.moved(lines, native_id, directory, providers=providers, at_us=at_us))
        return path
