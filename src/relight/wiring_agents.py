"""The part of the composition root (wiring.py) that knows agents, their hooks, and what frameworks' records hold.

Each is imported on first use: a command that lists sessions loads none of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from relight.journal import extensions

if TYPE_CHECKING:
    from relight.journal.formats.format import Format
    from relight.ports.agent import AgentAdapter
    from relight.ports.hooks import Answer, HookListener


class Agents:
    """The agent adapters; imported on first use."""

    names = frozenset({"claude", "codex"})

    def named(self, name: str) -> AgentAdapter:
        return next((one for one in self.known() if one.name == name), self._any())

    def of(self, command: Sequence[str]) -> AgentAdapter:
        return next((one for one in self.known() if one.recognises(command)), self._any())

    def known(self) -> tuple[AgentAdapter, ...]:
        from relight.agents.claude_code.adapter import ClaudeCode
        from relight.agents.codex.adapter import Codex

        return ClaudeCode(), Codex()

    def _any(self) -> AgentAdapter:
        from relight.agents.command import Command

        return Command()


class AgentExtensions:
    """What agents and frameworks teach the journal (`journal.extensions.Extensions`); imported on first use."""

    def formats(self) -> tuple[Format, ...]:
        from relight.agents.claude_code.format import CLAUDE_CODE
        from relight.agents.codex.format import CODEX

        return CLAUDE_CODE, CODEX

    def end_reader(self, agent: str) -> extensions.EndReader | None:
        if agent in ("claude", "claude_code", "claude-code", "claude_agent_sdk"):
            from relight.agents.claude_code import failures as of_claude

            return of_claude
        if agent == "codex":
            from relight.agents.codex import failures as of_codex

            return of_codex
        return None

    def record_readers(self) -> tuple[extensions.RecordReader, ...]:
        from relight.frameworks.langgraph import conversation

        return (conversation,)


class Hooks:
    """The hook channel; imported only by supervisors."""

    @property
    def command(self) -> tuple[str, ...]:
        from relight.hooks.channel import SocketHooks

        return SocketHooks.command

    def listen(self, directory: Path, answer: Answer) -> HookListener:
        from relight.hooks.channel import SocketHooks

        return SocketHooks().listen(directory, answer)


extensions.install(AgentExtensions())
