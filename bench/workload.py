"""The workload "growing transcript": one session of N turns, a reply with a call and a tool result each.

Deterministic for a seed, so that every contender of a run gets the same bytes. Prose is drawn from a vocabulary with
a long tail, and results look like files: names that come back, a few words that do not. A message compresses about 2.6
times with zstd at level 3, as real transcripts do.
"""

from __future__ import annotations

import random
from typing import Any

Message = dict[str, Any]
_LETTERS = "etaoinshrdlucmfwypvbgkjqxz"


class Transcript:
    """Messages of one session, made one by one."""

    def __init__(self, seed: int = 7) -> None:
        self._random = random.Random(seed)
        self._words = ["".join(self._random.choices(_LETTERS, k=self._random.randint(2, 10))) for _ in range(4000)]
        self._turn = 0

    def turn(self) -> tuple[Message, Message]:
        """One reply of about 2 kB with a call, and its result of about 4.3 kB."""
        self._turn += 1
        call = f"toolu_{self._turn:08d}"
        path = f"src/{self._word()}/{self._word()}.py"
        text = {"type": "text", "text": self._prose(1650)}
        use = {"type": "tool_use", "id": call, "name": "read_file", "input": {"path": path, "why": self._prose(120)}}
        reply = {"role": "assistant", "content": [text, use]}
        result = {"type": "tool_result", "tool_use_id": call, "content": self._listing(4100)}
        return reply, {"role": "user", "content": [result]}

    def _word(self) -> str:
        return self._words[min(int(self._random.paretovariate(0.5)), 3999)]

    def _prose(self, length: int) -> str:
        out: list[str] = []
        size = 0
        while size < length:
            word = self._word()
            out.append(word + ("." if self._random.random() < 0.08 else ""))
            size += len(word) + 1
        return " ".join(out)

    def _listing(self, length: int) -> str:
        names = [self._word() for _ in range(60)]
        lines: list[str] = []
        size = 0
        while size < length:
            indent = "    " * self._random.randint(1, 3)
            first, second, third = self._random.choices(names, k=3)
            line = f"{indent}{first}_{second} = self.{third}({self._random.randint(0, 9999)}, {self._word()})"
            lines.append(line)
            size += len(line) + 1
        return "\n".join(lines)
