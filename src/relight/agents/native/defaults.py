"""What an adapter does that has no hooks, no sub-agents of its own and no figure for a session's cost."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from relight.ports.agent import AgentDialect, Decision, Follower, Heard, Line, OwnCost, Surroundings, Transcript
from relight.values.call import Effect


class Defaults:
    """Base of an adapter: nothing is heard, and an unknown tool may have any effect."""

    dialect: AgentDialect | None = None
    """nothing is handed over from it or to it"""
    pure: frozenset[str] = frozenset()
    """tools that change nothing"""
    idempotent: frozenset[str] = frozenset()
    """done twice they leave what once leaves"""

    def configured_secrets(self, surroundings: Surroundings) -> tuple[str, ...]:
        return ()

    def own_cost(self, line: Line) -> OwnCost | None:
        return None

    def subagent_usage(self, path: Path) -> None:
        return None

    def effect_of(self, tool: str, arguments: Any) -> Effect:
        return "pure" if tool in self.pure else "idempotent" if tool in self.idempotent else "once"

    def hears(self, payload: Mapping[str, Any], surroundings: Surroundings) -> Heard | None:
        return None

    def decides(self, heard: Heard, decision: Decision, reason: str) -> Mapping[str, Any] | None:
        return None

    def follow(self, path: Path) -> Follower:
        raise NotImplementedError

    def read(self, path: Path) -> Transcript:
        return self.follow(path).read()
