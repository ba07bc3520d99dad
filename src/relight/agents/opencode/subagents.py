"""Sub-agents of opencode: sessions of its database that name their parent. A call of `task` waits for its sub-agent."""

from __future__ import annotations

from collections.abc import Container, Sequence
from pathlib import Path
from typing import Any

from relight.agents.opencode import database, rows
from relight.agents.opencode.format import OPENCODE
from relight.ports.agent import Line, SubAgent


class OpencodeSubAgents:
    """Implements `SubAgents` of ports/agent.py."""

    tools = frozenset({"task"})
    told = staticmethod(rows.told)

    def begun(self, path: Path, known: Container[str]) -> list[SubAgent]:
        return [
            SubAgent(id=name, path=path.with_name(f"{name}.jsonl"), call=call, task=title)
            for name, title, call in database.below(path)
            if name not in known
        ]

    def follow(self, one: SubAgent) -> database.SessionFollower:
        return database.SessionFollower(one.path)

    def spawned(self, lines: Sequence[Line]) -> dict[str, str]:
        return {}  # read from its files

    def reported(self, lines: Sequence[Line]) -> set[str]:
        return {call for line in lines for call in OPENCODE.answers(line)}

    def failure_in(self, line: Line) -> str | None:
        return None  # reported to the parent; the child's own transcript does not say it

    def report_in(self, result: Any) -> str | None:
        return result if isinstance(result, str) and result else None

    def how_to_continue(self, one: str) -> str:
        return f"continue it with the task tool and task_id '{one}' instead of starting another"
