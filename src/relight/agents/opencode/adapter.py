"""The adapter of opencode: implements ports/agent.py with the other modules of this package."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from relight.agents.native import hook_events, jsonl
from relight.agents.native.argv import names
from relight.agents.native.defaults import CodingAgent
from relight.agents.opencode import command_line, database, models, plugin, rows
from relight.agents.opencode.dialect import OPENCODE_DIALECT
from relight.agents.opencode.subagents import OpencodeSubAgents
from relight.errors import Conflict
from relight.ports.agent import Capabilities, Line, NativeCall, Surroundings


class Opencode(CodingAgent):
    """The adapter of opencode, named `opencode`."""

    name = "opencode"
    capabilities = Capabilities(transcript=True, native_resume=True, approvals=True)
    dialect = OPENCODE_DIALECT
    subagents = OpencodeSubAgents()
    install_hint = "npm install -g opencode-ai"
    secrets = (
        "ANTHROPIC_API_KEY",
        "OPENAI_API_KEY",
        "GEMINI_API_KEY",
        "OPENROUTER_API_KEY",
        "OPENCODE_API_KEY",
        "OPENCODE_SERVER_PASSWORD",
        "OPENCODE_CONFIG_CONTENT",
    )
    pure = names("read grep glob list webfetch websearch codesearch todoread todowrite lsp skill question")
    idempotent = names("write edit multiedit patch apply_patch")

    understand = staticmethod(command_line.understand)
    launch = staticmethod(command_line.launch)
    locate = staticmethod(database.locate)
    everywhere = staticmethod(database.everywhere)
    sessions = staticmethod(database.begun)
    key = staticmethod(rows.key_of)
    hears = staticmethod(plugin.hears)
    decides = staticmethod(hook_events.reply)
    prompted = staticmethod(rows.prompted)
    asked = staticmethod(rows.asked)
    answered = staticmethod(rows.answered)
    append = staticmethod(database.append)

    def native_id_of(self, command: Sequence[str]) -> str | None:
        found = command_line.understand(command)
        named = found.line.value("--session") if found is not None and not found.line.has("--fork") else None
        return named if database.is_id(named) else None

    def model_of(self, command: Sequence[str], surroundings: Surroundings) -> str | None:
        """As `--model PROVIDER/NAME` says; without it only opencode knows."""
        found = command_line.understand(command)
        named = found.line.value("--model") if found is not None else None
        return (named.partition("/")[2] or None) if named is not None else None

    def new_id(self) -> str | None:
        """An id for `write`; a session cannot be started under a chosen id."""
        return rows.new_id()

    def id_in_output(self, line: Line) -> str | None:
        named = line.get("sessionID")
        return named if isinstance(named, str) and database.is_id(named) else None

    def follow(self, path: Path) -> database.SessionFollower:
        return database.SessionFollower(path)

    def pending(self, lines: Sequence[Line]) -> list[NativeCall]:
        return [call for call, _ in rows.pending(lines).values()]

    def write(self, lines: Iterable[Line], native_id: str, surroundings: Surroundings) -> Path:
        path = database.path_of(native_id, surroundings)
        if database.has(path):
            raise Conflict(f"opencode has a session {native_id} already; nothing was written")
        directory = os.path.realpath(surroundings.directory)
        head = {"directory": directory, "created": time.time_ns() // 1_000_000}
        known = models.with_model(lines, models.configured(surroundings))
        own = rows.moved(known, lambda name: rows.own_name(name, native_id), directory)
        jsonl.create(path, [head, *own])
        return path
