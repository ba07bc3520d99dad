"""Usage of a session's sub-agents, each of which writes its own transcript beside the session's.

Their messages are not part of the conversation, but their tokens are paid for and count against its limits. Lines from
before this attempt were counted by the attempt that ran then.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from relight.agents.claude_code import tree
from relight.agents.native import jsonl
from relight.ports.agent import Entry
from relight.values.usage import Usage

_MAX: Final = 1000
"""transcripts read at most"""


class SubagentUsage:
    """Reads the usage of a transcript's sub-agents from now on."""

    def __init__(self, transcript: Path) -> None:
        self._directory = transcript.with_suffix("") / "subagents"
        self._counted: dict[str, Usage] = {}
        self._read = {path: path.stat().st_size for path in self._transcripts()}

    def read(self) -> list[Entry]:
        """Entries with usage that was not returned before."""
        found: list[Entry] = []
        for path in self._transcripts():
            fresh = jsonl.read(path, after=self._read.get(path, 0))
            self._read[path] = self._read.get(path, 0) + fresh.offset
            for line in fresh.lines:
                usage = tree.news(line, tree.reply_of(line), self._counted)
                if usage is not None:
                    found.append(tree.entry_of(line, usage=usage, ends_turn=False))
        return found

    def _transcripts(self) -> list[Path]:
        try:
            paths = sorted(self._directory.glob("agent-*.jsonl"))[:_MAX]
        except OSError:
            return []
        return [path for path in paths if path.is_file() and not path.is_symlink()]
