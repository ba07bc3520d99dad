"""The adapter of pi: implements ports/agent.py with the other modules of this package."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from relight.agents.native import hook_events, jsonl
from relight.agents.native.argv import names
from relight.agents.native.defaults import CodingAgent
from relight.agents.native.follower import FileFollower
from relight.agents.native.names import is_id, timed_id
from relight.agents.pi import command_line, directories, extension
from relight.agents.pi import session_lines as making
from relight.agents.pi.dialect import PI_DIALECT
from relight.ports.agent import Capabilities, Line, NativeCall, Surroundings, Transcript

_PROVIDERS: Final = names(
    "ANTHROPIC OPENAI AZURE_OPENAI DEEPSEEK GEMINI MISTRAL GROQ CEREBRAS XAI OPENROUTER AI_GATEWAY ZAI FIREWORKS HF"
)


class Pi(CodingAgent):
    """The adapter of pi, named `pi`."""

    name = "pi"
    capabilities = Capabilities(
        transcript=True, native_resume=True, approvals=True, begins_together=True, interactive=True
    )
    dialect = PI_DIALECT
    install_hint = "npm install -g @mariozechner/pi-coding-agent"
    secrets = (*sorted(f"{one}_API_KEY" for one in _PROVIDERS), "ANTHROPIC_OAUTH_TOKEN")
    pure = names("read grep find ls")
    idempotent = names("write edit")

    understand = staticmethod(command_line.understand)
    launch = staticmethod(command_line.launch)
    locate = staticmethod(directories.locate)
    everywhere = staticmethod(directories.everywhere)
    sessions = staticmethod(directories.begun)
    configured_secrets = staticmethod(directories.key_names)
    key = staticmethod(making.key_of)
    hears = staticmethod(extension.hears)
    decides = staticmethod(hook_events.reply)
    prompted = staticmethod(making.prompted)
    asked = staticmethod(making.asked)
    answered = staticmethod(making.answered)

    def native_id_of(self, command: Sequence[str]) -> str | None:
        found = command_line.understand(command)
        named = found.line.value("--session") if found is not None else None
        return named if is_id(named) else None

    def model_of(self, command: Sequence[str], surroundings: Surroundings) -> str | None:
        """As `--model [PROVIDER/]NAME[:THINKING]` or its settings name it."""
        found = command_line.understand(command)
        named = found.line.value("--model") if found is not None else None
        if named is None:
            return directories.default_model(surroundings)
        return named.rpartition("/")[2].partition(":")[0] or None

    def new_id(self) -> str | None:
        """An id for `write`; a session cannot be started under a chosen id."""
        return timed_id()

    def id_in_output(self, line: Line) -> str | None:
        named = line.get("id") if line.get("type") == making.HEADER else None
        return named if isinstance(named, str) and is_id(named) else None

    def follow(self, path: Path) -> FileFollower:
        def assembled(lines: Sequence[Line], offset: int, tail: bytes) -> Transcript:
            return Transcript(
                native_id=directories.id_of(path),
                path=path,
                entries=making.entries(lines),
                offset=offset,
                torn=tail,
                model=making.model_of(lines),
            )

        return FileFollower(path, assembled)

    def pending(self, lines: Sequence[Line]) -> list[NativeCall]:
        return list(making.pending(lines).values())

    def write(self, lines: Iterable[Line], native_id: str, surroundings: Surroundings) -> Path:
        at_us = time.time_ns() // 1000
        made = directories.new_session(native_id, surroundings, at_us=at_us)
        # The name has the time besides the id, so an id that exists would get a second file.
        path = directories.locate(native_id, surroundings) or made
        directory = os.path.realpath(surroundings.directory)
        jsonl.create(path, making.moved(lines, native_id, directory, at_us=at_us))
        return path
