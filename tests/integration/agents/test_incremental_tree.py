"""A transcript that grows is read as if it had been read at once, whatever is written to it next."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from relight.agents.claude_code import tree
from relight.agents.claude_code.incremental_tree import IncrementalTree
from relight.agents.codex import rollout
from tests.support.transcripts import codex_conversation, rollout_line

Line = dict[str, Any]


class Writer:
    """Writes lines as the agent might, and now and then as it hardly would."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self.lines: list[Line] = []
        self._count = 0
        self._calls: list[tuple[str, str]] = []
        """(call, line) without a result"""

    def write(self) -> None:
        """A few more lines."""
        kinds = ["prompt", "reply", "reply", "results", "results", "attachment", "bookkeeping", "sidechain"]
        kinds += ["back", "boundary", "progress", "late block"] if self._chance.random() < 0.3 else []
        getattr(self, "_" + self._chance.choice(kinds).replace(" ", "_"))()

    def _line(self, kind: str, parent: str | None, message: Line | None = None, **more: Any) -> str:
        self._count += 1
        name = f"u{self._count}"
        line: Line = {"type": kind, "uuid": name, "parentUuid": parent, **more}
        self.lines.append(line if message is None else {**line, "message": message})
        return name

    def _last(self) -> str | None:
        named = [line["uuid"] for line in self.lines if "uuid" in line and not line.get("isSidechain")]
        return named[-1] if named else None

    def _prompt(self) -> None:
        self._line("user", self._last(), {"role": "user", "content": f"do {self._count}"})

    def _reply(self) -> None:
        reply, parent = f"m{self._count}", self._last()
        for block in range(self._chance.randint(1, 3)):
            usage = {"input_tokens": 3, "output_tokens": block + 1}
            stop = self._chance.choice([None, "end_turn", "tool_use"])
            message = {"id": reply, "role": "assistant", "usage": usage, "stop_reason": stop}
            if self._chance.random() < 0.5:
                call = f"t{self._count}"
                content = [{"type": "tool_use", "id": call, "name": "Bash", "input": {}}]
                parent = self._line("assistant", parent, {**message, "content": content})
                self._calls.append((call, parent))
            else:
                content = [{"type": "text", "text": "so"}]
                parent = self._line("assistant", parent, {**message, "content": content})

    def _late_block(self) -> None:
        """Another block of a reply that seemed to be over."""
        replies = [line for line in self.lines if line.get("type") == "assistant"]
        if replies:
            content = [{"type": "text", "text": "and"}]
            message = {**self._chance.choice(replies[-3:])["message"], "content": content}
            self._line("assistant", self._last(), message)

    def _results(self) -> None:
        self._chance.shuffle(self._calls)
        for call, line in self._calls[: self._chance.randint(1, 3)]:
            content = [{"type": "tool_result", "tool_use_id": call, "content": "ok"}]
            parent = line if self._chance.random() < 0.7 else self._last()
            self._line("user", parent, {"role": "user", "content": content})
            self._calls.remove((call, line))

    def _attachment(self) -> None:
        self._line("attachment", self._last(), attachment={"type": "hook"})

    def _bookkeeping(self) -> None:
        self.lines.append({"type": "queue-operation", "operation": "enqueue"})

    def _progress(self) -> None:
        self._line("progress", self._last())

    def _sidechain(self) -> None:
        self._line("assistant", None, {"role": "assistant", "content": "aside"}, isSidechain=True)

    def _back(self) -> None:
        """A person goes on from an older line."""
        named = [line["uuid"] for line in self.lines if "uuid" in line]
        if named:
            self._line("user", self._chance.choice(named), {"role": "user", "content": "rather"})

    def _boundary(self) -> None:
        kept = [line["uuid"] for line in self.lines if "uuid" in line][-2:]
        metadata = {"preservedMessages": {"uuids": kept}}
        name = self._line("system", None, subtype="compact_boundary", compactMetadata=metadata)
        self._line("user", name, {"role": "user", "content": "a summary"}, isCompactSummary=True)


def test_what_grows_is_read_as_what_is_whole(sample: Callable[..., int]) -> None:
    for seed in range(sample(150, proof=20_000, teeth=60)):
        chance = random.Random(seed)
        writer, growing = Writer(chance), IncrementalTree()
        for _ in range(chance.randint(2, 30)):
            writer.write()
            if chance.random() < 0.7:
                assert growing.entries(list(writer.lines)) == tree.entries(writer.lines), f"seed {seed}"


def test_a_rollout_that_grows_is_read_as_one_that_is_whole() -> None:
    lines = codex_conversation()
    compacted = rollout_line(90, "compacted", {"message": "so far", "replacement_history": []})
    lines = [*lines, compacted, *[{**line, "ordinal": 100 + location} for location, line in enumerate(lines[1:])]]
    growing = rollout.IncrementalRollout(lambda name: None)
    for end in range(1, len(lines) + 1):
        assert growing.entries(lines[:end]) == rollout.IncrementalRollout(lambda name: None).entries(lines[:end])
