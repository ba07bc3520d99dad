"""A transcript cut anywhere keeps every whole line before the cut, and the rest byte for byte."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from relight.agents.claude_code.adapter import ClaudeCode
from relight.agents.codex.adapter import Codex
from relight.agents.native import jsonl
from relight.ports.agent import AgentAdapter
from tests.support.figures import Figure
from tests.support.transcripts import (
    CLAUDE_SESSION,
    CODEX_SESSION,
    ClaudeLines,
    codex_meta,
    function_call,
    function_output,
    said,
    tokens,
)

Lines = list[dict[str, Any]]


def claude_lines(chance: random.Random) -> Lines:
    made = ClaudeLines()
    for turn in range(chance.randrange(1, 3)):
        made.user("prompt " + "é\n\u2028" * chance.randrange(3))
        names = [f"toolu_{turn}_{location}" for location in range(chance.randrange(3))]
        calls = {name: made.call(f"msg_{turn}", name) for name in names}
        for name in chance.sample(names, len(names)):
            made.result(name, calls[name])
        made.says(f"msg_{turn}_end", "done")
    return made.lines


def codex_lines(chance: random.Random) -> Lines:
    lines = [codex_meta()]
    for turn in range(chance.randrange(1, 4)):
        lines.append(said(len(lines), "user", "prompt " + "é\n\u2028" * chance.randrange(3)))
        names = [f"call_{turn}_{location}" for location in range(chance.randrange(3))]
        lines += [function_call(len(lines) + location, name) for location, name in enumerate(names)]
        lines += [function_output(len(lines) + location, name) for location, name in enumerate(names)]
        lines += [tokens(len(lines), 100 * (turn + 1)), said(len(lines) + 1, "assistant", "done")]
    return lines


@pytest.mark.guarantee("G6")
@pytest.mark.parametrize(
    ("adapter", "make", "name"),
    [
        (ClaudeCode(), claude_lines, f"{CLAUDE_SESSION}.jsonl"),
        (Codex(), codex_lines, f"rollout-2026-11-15T08-00-00-{CODEX_SESSION}.jsonl"),
    ],
    ids=["claude", "codex"],
)
def test_every_byte_cut_keeps_the_valid_prefix(
    adapter: AgentAdapter,
    make: Callable[[random.Random], Lines],
    name: str,
    tmp_path: Path,
    sample: Callable[..., int],
    figure: Figure,
) -> None:
    path, files, cuts = tmp_path / name, sample(1, proof=100), 0
    for seed in range(files):
        lines = make(random.Random(seed))
        data = b"".join(json.dumps(line, ensure_ascii=False).encode() + b"\n" for line in lines)
        whole = [adapter.key(line) for line in lines]
        ends = [location for location, byte in enumerate(data) if byte == ord("\n")]
        path.write_bytes(data)
        for cut in range(len(data), -1, -1):
            os.truncate(path, cut)  # not written anew: some file systems sync a file that was emptied first
            found = adapter.read(path)
            held = sum(end <= cut for end in ends)
            assert [entry.key for entry in found.entries] == whole[:held]
            assert path.read_bytes() == data[: found.offset] + found.torn
            cuts += 1
    figure("G6", f"{adapter.name}: {cuts:,} cuts of {files} transcripts, the longest valid prefix kept each time")


def test_half_of_a_character_is_read_and_written_as_javascript_does() -> None:
    raw = b'{"said":"half \\ud83d of one"}\n'
    [line] = jsonl.parse(raw).lines
    assert line == {"said": "half \ud83d of one"}
    assert jsonl.parse(jsonl.encode([line])).lines == (line,)
