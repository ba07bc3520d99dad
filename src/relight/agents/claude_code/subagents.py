"""Sub-agents of Claude Code: each has a transcript and a description of its own, in a directory beside the session's.

Their lines have the form of the session's, marked as a side chain. A call of `Agent` waits for the sub-agent and has
its report as result; in the background it has a result at once, and the report comes later, as a notification.
"""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from pathlib import Path
from typing import Any, Final

from relight.agents.claude_code import transcript_lines as making
from relight.agents.claude_code import tree
from relight.agents.claude_code.format import queued_text
from relight.agents.claude_code.incremental_tree import IncrementalTree
from relight.agents.native import jsonl
from relight.agents.native.follower import FileFollower
from relight.journal.formats.anthropic import ANTHROPIC
from relight.ports.agent import Line, SubAgent, Transcript

_MAX: Final = 1000
"""transcripts read at most"""
_NAME: Final = re.compile(r"agent-([A-Za-z0-9_-]{1,64})\.jsonl", re.ASCII)
_LAUNCHED: Final = "Async agent launched"
_NOTIFIED: Final = re.compile(r"<task-id>([A-Za-z0-9_-]{1,64})</task-id>", re.ASCII)


class ClaudeSubAgents:
    """Implements `SubAgents` of ports/agent.py."""

    tools = frozenset({"Agent", "Task"})
    told = staticmethod(making.told)

    def begun(self, path: Path, known: Container[str]) -> list[SubAgent]:
        directory = path.with_suffix("") / "subagents"
        try:
            names = sorted(one.name for one in directory.iterdir())
        except OSError:
            return []
        found = [match[1] for name in names if (match := _NAME.fullmatch(name)) is not None][:_MAX]
        return [self._read(directory, one) for one in found if one not in known and _is_own(directory, one)]

    def _read(self, directory: Path, name: str) -> SubAgent:
        path = directory / f"agent-{name}.jsonl"
        meta = jsonl.first(path.with_suffix(".meta.json")) or {}
        prompt = _words(tree.message_of(jsonl.first(path) or {}).get("content"))
        return SubAgent(id=name, path=path, call=_text(meta, "toolUseId"), task=_text(meta, "description") or prompt)

    def follow(self, one: SubAgent) -> FileFollower:
        growing = IncrementalTree(sidechain=True)

        def assembled(lines: Sequence[Line], offset: int, tail: bytes) -> Transcript:
            chosen = growing.entries(lines)
            model = tree.model_of([entry.line for entry in chosen])
            return Transcript(
                native_id=one.id, path=one.path, entries=chosen, offset=offset, torn=tail, model=model, version=None
            )

        return FileFollower(one.path, assembled)

    def spawned(self, lines: Sequence[Line]) -> dict[str, str]:
        return {}  # read from its files

    def reported(self, lines: Sequence[Line]) -> set[str]:
        found: set[str] = set()
        for line in lines:
            message = tree.message_of(line) if line.get("type") == "user" else {}
            content = message.get("content")
            # The notice is a message of its own between two turns, and an attachment within one.
            notice = content if isinstance(content, str) else queued_text(line)
            found.update(_NOTIFIED.findall(notice or ""))
            answers = set(ANTHROPIC.answers(message))
            for block in content if answers and isinstance(content, list) else ():
                if isinstance(block, dict) and block.get("tool_use_id") in answers:
                    text = _words(block.get("content"))
                    found |= set() if text.startswith(_LAUNCHED) else {block["tool_use_id"]}
        return found

    def failure_in(self, line: Line) -> str | None:
        if line.get("isApiErrorMessage") is not True:
            return None
        return _words(tree.message_of(line).get("content")) or "its provider refused a request"

    def report_in(self, result: Any) -> str | None:
        finished = isinstance(result, dict) and result.get("status") == "completed"
        return (_words(result.get("content")) or None) if finished else None

    def how_to_continue(self, one: str) -> str:
        return f"continue it with SendMessage to '{one}' instead of starting another"


def _is_own(directory: Path, name: str) -> bool:
    path = directory / f"agent-{name}.jsonl"
    return path.is_file() and not path.is_symlink()


def _words(content: Any) -> str:
    """The text of a prompt or a result, whole or in blocks."""
    if isinstance(content, str):
        return content
    blocks = [one for one in content if isinstance(one, dict)] if isinstance(content, list) else []
    return "\n".join(text for one in blocks if isinstance(text := one.get("text"), str))


def _text(given: dict[str, Any], field: str) -> str | None:
    value = given.get(field)
    return value if isinstance(value, str) and value else None
