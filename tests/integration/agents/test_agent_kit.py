"""The kit over all adapters, and the kit itself: an adapter that breaks a promise is caught."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from relight.agents.claude_code.adapter import ClaudeCode
from relight.agents.codex.adapter import Codex
from relight.agents.command import Command
from relight.agents.gemini.adapter import Gemini
from relight.agents.opencode.adapter import Opencode
from relight.agents.pi.adapter import Pi
from relight.ports.agent import AgentAdapter, Line, Transcript
from relight.testing.agent_kit import AgentChecks
from tests.support.transcripts import (
    claude_conversation,
    codex_conversation,
    gemini_conversation,
    opencode_conversation,
    pi_conversation,
)


class ClaudeChecks(AgentChecks):
    adapter: ClassVar[AgentAdapter] = ClaudeCode()
    command = ("claude", "-p", "do it", "--model", "opus")

    def conversation(self) -> Sequence[Line]:
        return claude_conversation()


class CodexChecks(AgentChecks):
    adapter: ClassVar[AgentAdapter] = Codex()
    command = ("codex", "exec", "--json", "do it")

    def conversation(self) -> Sequence[Line]:
        return codex_conversation()


class PiChecks(AgentChecks):
    adapter: ClassVar[AgentAdapter] = Pi()
    command = ("pi", "-p", "--mode", "json", "do it")

    def conversation(self) -> Sequence[Line]:
        return pi_conversation()


class OpencodeChecks(AgentChecks):
    adapter: ClassVar[AgentAdapter] = Opencode()
    command = ("opencode", "run", "--format", "json", "do it")

    def conversation(self) -> Sequence[Line]:
        return opencode_conversation()


class GeminiChecks(AgentChecks):
    adapter: ClassVar[AgentAdapter] = Gemini()
    command = ("gemini", "--output-format", "stream-json", "-p", "do it")

    def conversation(self) -> Sequence[Line]:
        return gemini_conversation()


class CommandChecks(AgentChecks):
    adapter: ClassVar[AgentAdapter] = Command()
    command = ("python", "agent.py", "--all")

    def conversation(self) -> Sequence[Line]:
        return []


KITS: tuple[type[AgentChecks], ...] = (
    ClaudeChecks,
    CodexChecks,
    PiChecks,
    OpencodeChecks,
    GeminiChecks,
    CommandChecks,
)
CHECKS = sorted(name for name in dir(AgentChecks) if name.startswith("check_"))


@pytest.mark.parametrize("name", CHECKS)
@pytest.mark.parametrize("kit", KITS, ids=lambda kit: kit.__name__)
def test_every_adapter_keeps_the_promises(kit: type[AgentChecks], name: str, tmp_path: Path) -> None:
    getattr(kit(tmp_path), name)()


class _Forgets(ClaudeCode):
    """Leaves out the last line."""

    def read(self, path: Path) -> Transcript:
        found = super().read(path)
        return Transcript(native_id=found.native_id, path=path, entries=found.entries[:-1], offset=found.offset)


class _Believes(Codex):
    """Takes any id for one."""

    def locate(self, native_id: str, surroundings: Any) -> Path | None:
        return Path(surroundings.directory, native_id)


class _Careless(ClaudeCode):
    """Takes every tool for harmless."""

    def effect_of(self, tool: str, arguments: Any) -> Any:
        return "pure"


@pytest.mark.parametrize(
    ("kit", "broken", "name"),
    [
        (ClaudeChecks, _Forgets(), "check_every_prefix_is_a_session"),
        (ClaudeChecks, _Forgets(), "check_repair_lines_are_read_back_after_what_they_follow"),
        (CodexChecks, _Believes(), "check_a_hostile_id_reaches_no_path"),
        (ClaudeChecks, _Careless(), "check_an_unknown_tool_may_have_any_effect"),
    ],
)
def test_the_kit_notices_a_broken_promise(
    kit: type[AgentChecks], broken: AgentAdapter, name: str, tmp_path: Path
) -> None:
    class Broken(kit):  # type: ignore[valid-type, misc]
        adapter = broken

    with pytest.raises((AssertionError, ValueError)):
        getattr(Broken(tmp_path), name)()
