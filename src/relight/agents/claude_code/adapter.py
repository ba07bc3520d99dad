"""The adapter of Claude Code: implements ports/agent.py with the other modules of this package."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from relight.agents.claude_code import command_line, directories, hooks, models, tree
from relight.agents.claude_code import transcript_lines as making
from relight.agents.claude_code.dialect import CLAUDE_DIALECT
from relight.agents.claude_code.incremental_tree import IncrementalTree
from relight.agents.claude_code.subagents import ClaudeSubAgents
from relight.agents.native import jsonl
from relight.agents.native.argv import names
from relight.agents.native.defaults import CodingAgent
from relight.agents.native.follower import FileFollower
from relight.agents.native.names import is_id, random_id
from relight.ports.agent import Capabilities, Line, NativeCall, Surroundings, Transcript

_RECENT: Final = 500
"""last lines that are searched for the model's name"""


class ClaudeCode(CodingAgent):
    """Adapter of Claude Code, `claude`."""

    name = "claude"
    provider: str | None = "anthropic"
    capabilities = Capabilities(
        transcript=True,
        native_resume=True,
        chosen_id=True,
        hooks=True,
        approvals=True,
        defers=True,
        gate=True,
        interactive=True,
    )
    dialect = CLAUDE_DIALECT
    subagents = ClaudeSubAgents()
    install_hint = "npm install -g @anthropic-ai/claude-code"
    secrets = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")
    pure = names(
        "Read Grep Glob LS NotebookRead WebFetch WebSearch TodoRead TodoWrite TaskGet TaskList TaskOutput BashOutput"
        " ToolSearch EnterPlanMode ExitPlanMode AskUserQuestion ListMcpResources ReadMcpResource CronList LSP Skill"
    )
    # A file is written whole, and an edit no longer finds what it replaced.
    idempotent = names("Write Edit MultiEdit NotebookEdit TaskUpdate KillShell TaskStop")

    own_cost = staticmethod(tree.own_cost)
    new_id = staticmethod(random_id)
    understand = staticmethod(command_line.understand)
    launch = staticmethod(command_line.launch)
    locate = staticmethod(directories.locate)
    everywhere = staticmethod(directories.everywhere)
    sessions = staticmethod(directories.begun)
    key = staticmethod(tree.key_of)
    hears = staticmethod(hooks.hears)
    decides = staticmethod(hooks.decides)
    prompted = staticmethod(making.prompted)
    asked = staticmethod(making.asked)
    answered = staticmethod(making.answered)

    def native_id_of(self, command: Sequence[str]) -> str | None:
        named = command_line.named_id(command)
        return named if is_id(named) else None

    def model_of(self, command: Sequence[str], surroundings: Surroundings) -> str | None:
        found = command_line.understand(command)
        return models.model_of(found.line if found is not None else None, surroundings)

    def id_in_output(self, line: Line) -> str | None:
        named = line.get("session_id")
        return named if isinstance(line.get("type"), str) and isinstance(named, str) and is_id(named) else None

    def follow(self, path: Path) -> FileFollower:
        growing = IncrementalTree()

        def assembled(lines: Sequence[Line], offset: int, tail: bytes) -> Transcript:
            chosen = growing.entries(lines)
            named = path.stem if is_id(path.stem) else tree.last_text(lines, "sessionId") or ""
            return Transcript(
                native_id=named if is_id(named) else "",
                path=path,
                entries=chosen,
                offset=offset,
                torn=tail,
                model=tree.model_of([entry.line for entry in chosen[-_RECENT:]]),
                version=growing.version,
            )

        return FileFollower(path, assembled)

    def pending(self, lines: Sequence[Line]) -> list[NativeCall]:
        return [call for call, _ in tree.pending(lines).values()]

    def write(self, lines: Iterable[Line], native_id: str, surroundings: Surroundings) -> Path:
        path = directories.transcript(native_id, surroundings)
        jsonl.create(path, making.moved(lines, native_id, str(Path(surroundings.directory).resolve())))
        return path
