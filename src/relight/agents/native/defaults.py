"""What adapters share: reading a command, and the defaults of an agent without hooks, sub-agents and a cost of its
own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from relight.ports.agent import (
    AgentDialect,
    Decision,
    Follower,
    Heard,
    Line,
    OwnCost,
    SubAgents,
    Surroundings,
    Transcript,
)
from relight.values.call import Effect


class Understood(Protocol):
    """A parsed command of an agent."""

    @property
    def prompt(self) -> str | None: ...


class CommandReader(ABC):
    """Base of an adapter that reads its agent's command lines."""

    @staticmethod
    @abstractmethod
    def understand(command: Sequence[str]) -> Understood | None:
        """Parse a command; None if it does not run a session of this agent."""

    def recognises(self, command: Sequence[str]) -> bool:
        return self.understand(command) is not None

    def task_of(self, command: Sequence[str]) -> str | None:
        found = self.understand(command)
        return found.prompt if found is not None else None


class Defaults(CommandReader):
    """Base of an adapter: nothing is heard, and an unknown tool may have any effect."""

    dialect: AgentDialect | None = None
    """nothing is handed over from it or to it"""
    subagents: SubAgents | None = None
    """nothing is known of them"""
    pure: frozenset[str] = frozenset()
    """tools that change nothing"""
    idempotent: frozenset[str] = frozenset()
    """done twice they leave what once leaves"""

    def configured_secrets(self, surroundings: Surroundings) -> tuple[str, ...]:
        return ()

    def own_cost(self, line: Line) -> OwnCost | None:
        return None

    def effect_of(self, tool: str, arguments: Any) -> Effect:
        return "pure" if tool in self.pure else "idempotent" if tool in self.idempotent else "once"

    def hears(self, payload: Mapping[str, Any], surroundings: Surroundings) -> Heard | None:
        return None

    def decides(self, heard: Heard, decision: Decision, reason: str) -> Mapping[str, Any] | None:
        return None

    @abstractmethod
    def follow(self, path: Path) -> Follower:
        """See `AgentAdapter.follow`."""

    def read(self, path: Path) -> Transcript:
        return self.follow(path).read()
