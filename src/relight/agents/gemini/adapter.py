"""The adapter of Gemini CLI: implements ports/agent.py with the other modules of this package."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from relight.agents.gemini import command_line, directories, hooks, records
from relight.agents.gemini.dialect import GEMINI_DIALECT
from relight.agents.native import jsonl
from relight.agents.native.argv import names
from relight.agents.native.defaults import CodingAgent
from relight.agents.native.follower import FileFollower
from relight.agents.native.names import is_id, random_id, stamp
from relight.ports.agent import Capabilities, Line, NativeCall, Surroundings, Transcript


class Gemini(CodingAgent):
    """The adapter of Gemini CLI, named `gemini`."""

    name = "gemini"
    provider: str | None = "google"
    capabilities = Capabilities(
        transcript=True,
        native_resume=True,
        chosen_id=True,
        hooks=True,
        approvals=True,
        begins_together=True,
        nests=("invoke_agent",),
        gate=True,
        interactive=True,
    )
    dialect = GEMINI_DIALECT
    install_hint = "npm install -g @google/gemini-cli"
    secrets = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
    pure = names(
        "read_file read_many_files list_directory glob grep_search search_file_content google_web_search web_fetch"
        " get_internal_docs"
    )
    idempotent = names("write_file replace write_todos")

    understand = staticmethod(command_line.understand)
    launch = staticmethod(command_line.launch)
    locate = staticmethod(directories.locate)
    everywhere = staticmethod(directories.everywhere)
    sessions = staticmethod(directories.begun)
    hears = staticmethod(hooks.hears)
    decides = staticmethod(hooks.decides)
    key = staticmethod(records.key_of)
    prompted = staticmethod(records.prompted)
    asked = staticmethod(records.asked)
    answered = staticmethod(records.answered)

    def native_id_of(self, command: Sequence[str]) -> str | None:
        named = command_line.named_id(command)
        return named if is_id(named) else None

    def model_of(self, command: Sequence[str], surroundings: Surroundings) -> str | None:
        """As `--model`, the environment or its settings name it. A short name such as `pro` is none."""
        found = command_line.understand(command)
        named = found.line.value("--model") if found is not None else None
        named = named or directories.default_model(surroundings)
        return named if named is not None and named.startswith("gemini-") else None

    def new_id(self) -> str | None:
        """Random from its first character on: file names have only the first eight of them."""
        return random_id()

    def id_in_output(self, line: Line) -> str | None:
        named = line.get("session_id") if line.get("type") == "init" else None
        return named if isinstance(named, str) and is_id(named) else None

    def follow(self, path: Path) -> FileFollower:
        def assembled(raw: Sequence[Line], offset: int, tail: bytes) -> Transcript:
            lines = records.lines_of(records.resolved(raw))
            native = raw[0].get("sessionId") if raw else ""
            return Transcript(
                native_id=str(native) if is_id(native) else "",
                path=path,
                entries=records.entries(lines),
                offset=offset,
                torn=tail,
                model=records.model_of(lines),
            )

        return FileFollower(path, assembled)

    def pending(self, lines: Sequence[Line]) -> list[NativeCall]:
        return [call for call, _ in records.pending(lines).values()]

    def append(self, path: Path, lines: Sequence[Line], *, offset: int) -> None:
        """Also brings what is there into the form that is resumed without loss, if it is not in it."""
        there = records.resolved(jsonl.read(path).lines)
        wanted = records.records_of([*records.lines_of(there), *lines])
        patch = {"messages": wanted, "lastUpdated": stamp(time.time_ns() // 1000)}
        jsonl.append(path, [{"$set": patch}] if wanted != there else (), offset=offset)

    def write(self, lines: Iterable[Line], native_id: str, surroundings: Surroundings) -> Path:
        at_us = time.time_ns() // 1000
        # The name has the time besides the id, so an id that exists would get a second file.
        path = directories.locate(native_id, surroundings)
        path = path or directories.new_session(native_id, surroundings, at_us=at_us)
        now = stamp(at_us)
        header = {
            "sessionId": native_id,
            "projectHash": directories.project_hash(surroundings.directory),
            "startTime": now,
            "lastUpdated": now,
            "kind": "main",
        }
        jsonl.create(path, [header, *records.records_of(lines)])
        return path
