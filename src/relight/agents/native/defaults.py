"""Bases of adapters: what an agent has unless its adapter says otherwise."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from relight.agents.native import jsonl
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


class Defaults(ABC):
    """Base of every adapter: nothing is heard, and an unknown tool may have any effect."""

    provider: str | None = None
    """one of several, or none"""
    dialect: AgentDialect | None = None
    """nothing is handed over from it or to it"""
    subagents: SubAgents | None = None
    """nothing is known of them"""
    secrets: tuple[str, ...] = ()
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
        """An incremental reader of this transcript."""

    def read(self, path: Path) -> Transcript:
        return self.follow(path).read()


class Understood(Protocol):
    """A parsed command of an agent."""

    @property
    def prompt(self) -> str | None: ...


class CodingAgent(Defaults):
    """Base of an adapter that reads its agent's command lines, and whose transcript is a file of JSON lines."""

    keep = staticmethod(jsonl.keep)

    @staticmethod
    @abstractmethod
    def understand(command: Sequence[str]) -> Understood | None:
        """Parse a command; None if it does not run a session of this agent."""

    def recognises(self, command: Sequence[str]) -> bool:
        return self.understand(command) is not None

    def task_of(self, command: Sequence[str]) -> str | None:
        found = self.understand(command)
        return found.prompt if found is not None else None

    def append(self, path: Path, lines: Sequence[Line], *, offset: int) -> None:
        jsonl.append(path, lines, offset=offset)
