"""Which lines of a rollout of Codex are the conversation, and what they tell."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from relight.agents.codex.adapter import Codex
from relight.ports.agent import NativeCall, NativeResult, Surroundings, Transcript
from tests.support.transcripts import (
    AT,
    CODEX_SESSION,
    codex_conversation,
    codex_meta,
    function_call,
    function_output,
    item,
    rollout_line,
    said,
    tokens,
)

CODEX = Codex()
CHILD = "01a1de6e-0000-7b73-97b7-868570f5697e"
GRANDCHILD = "01a1de6e-1111-7b73-97b7-868570f5697e"


def put(lines: list[dict[str, Any]], home: Path, name: str = CODEX_SESSION) -> Path:
    path = home / ".codex" / "sessions" / "2026" / "11" / "15" / f"rollout-2026-11-15T08-00-00-{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def location(tmp_path: Path, directory: str = "/old") -> Surroundings:
    return Surroundings(directory=directory, environment={"HOME": str(tmp_path)})


def ordinals(found: Transcript) -> list[int]:
    return [entry.line["ordinal"] for entry in found.entries]


def test_bookkeeping_is_left_out(tmp_path: Path) -> None:
    lines = codex_conversation()
    started = rollout_line(11, "event_msg", {"type": "task_started", "turn_id": "t"})
    found = CODEX.read(put([*lines, started, rollout_line(12, "of-tomorrow", {"full": True})], tmp_path))
    assert ordinals(found) == [line["ordinal"] for line in lines]
    assert (found.native_id, found.model, found.version) == (CODEX_SESSION, "m", "0.166.0")


def test_tokens_are_the_difference_of_sums_and_the_cache_is_counted_apart(tmp_path: Path) -> None:
    lines = [codex_meta(), tokens(1, 110, 5), tokens(2, 110, 5), tokens(3, 230, 9), tokens(4, 50, 2)]
    reported = [entry.usage for entry in CODEX.read(put(lines, tmp_path)).entries]
    assert [usage and (usage.input_tokens, usage.cache_read_tokens, usage.output_tokens) for usage in reported] == [
        None,
        (100, 10, 5),
        None,
        (120, 0, 4),
        (40, 10, 2),
    ]


def test_the_end_of_a_turn_is_a_line_of_its_own(tmp_path: Path) -> None:
    found = CODEX.read(put(codex_conversation(), tmp_path))
    assert [entry.key for entry in found.entries if entry.ends_turn] == ["task_complete:t"]


def test_a_compaction_replaces_what_came_before(tmp_path: Path) -> None:
    compacted = rollout_line(11, "compacted", {"message": "", "replacement_history": [{"type": "message"}]})
    lines = [*codex_conversation(), function_call(10, "call_lost"), compacted, said(12, "user", "now more")]
    found = CODEX.read(put(lines, tmp_path))
    assert ordinals(found) == [0, 11, 12]
    assert CODEX.pending([entry.line for entry in found.entries]) == []


def test_a_fork_is_read_with_its_parents_below_the_place_it_was_forked_at(tmp_path: Path) -> None:
    def forked(name: str, parent: str, end: int) -> dict[str, Any]:
        return codex_meta(id=name, history_base={"thread_id": parent, "end_ordinal_exclusive": end})

    put(codex_conversation(), tmp_path)
    put([forked(CHILD, CODEX_SESSION, 6), said(6, "user", "child"), said(7, "user", "lost")], tmp_path, CHILD)
    path = put([forked(GRANDCHILD, CHILD, 7), said(7, "user", "grandchild")], tmp_path, GRANDCHILD)
    found = CODEX.read(path)
    assert ordinals(found) == [0, 1, 2, 3, 4, 5, 6, 7]
    assert (found.native_id, found.entries[0].line["payload"]["id"]) == (GRANDCHILD, GRANDCHILD)
    name = CODEX.new_id()
    assert name is not None
    again = CODEX.write([entry.line for entry in found.entries], name, location(tmp_path / "blank", str(tmp_path)))
    assert [entry.key for entry in CODEX.read(again).entries] == [entry.key for entry in found.entries]
    assert "history_base" not in again.read_text()


def test_a_fork_whose_parent_is_gone_or_itself_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    for parent in (CHILD, CODEX_SESSION, "../../etc/passwd"):
        meta = codex_meta(history_base={"thread_id": parent, "end_ordinal_exclusive": 5})
        assert ordinals(CODEX.read(put([meta, said(6, "user", "x")], tmp_path)))[-1] == 6


@pytest.mark.parametrize(
    ("config", "provider"),
    [
        ("", "openai"),
        ('model_provider = "mine"', "mine"),
        ('model_provider = "mine"\n[model_providers.fake]\nname = "x"', "fake"),
        ("not toml", "openai"),
        ("model_provider = 7\nmodel_providers = 7", "openai"),
    ],
)
def test_a_written_thread_names_a_provider_that_is_known_where_it_is_put(
    config: str, provider: str, tmp_path: Path
) -> None:
    name = CODEX.new_id()
    assert name is not None
    (tmp_path / ".codex").mkdir()
    (tmp_path / ".codex" / "config.toml").write_text(config)
    path = CODEX.write(codex_conversation(), name, location(tmp_path, str(tmp_path)))
    assert CODEX.read(path).entries[0].line["payload"]["model_provider"] == provider


def test_what_was_said_is_shown_on_the_screen_of_a_written_thread_and_not_read_again(tmp_path: Path) -> None:
    name = CODEX.new_id()
    assert name is not None
    path = CODEX.write(codex_conversation(), name, location(tmp_path, str(tmp_path)))
    events = [json.loads(line)["payload"] for line in path.read_text().splitlines() if '"event_msg"' in line]
    shown = [(event["item"]["type"], event["item"]["content"][0]["text"]) for event in events if "item" in event]
    assert shown == [("UserMessage", "do it é"), ("AgentMessage", "all done")]
    assert [CODEX.key(line) for line in codex_conversation()] == [entry.key for entry in CODEX.read(path).entries]


def test_a_written_thread_names_its_new_place(tmp_path: Path) -> None:
    name = CODEX.new_id()
    assert name is not None
    there = location(tmp_path, str(tmp_path))
    path = CODEX.write(codex_conversation(), name, there)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    meta = lines[0]["payload"]
    assert (meta["id"], meta["cwd"]) == (name, str(tmp_path.resolve()))
    assert [line["ordinal"] for line in lines] == list(range(len(lines)))
    assert path.name.endswith(f"-{name}.jsonl")
    assert name[14] == "7"


def test_threads_are_found_by_the_directory_they_were_begun_in(tmp_path: Path) -> None:
    put(codex_conversation(), tmp_path)
    put([codex_meta(id=CHILD, cwd="/elsewhere")], tmp_path, CHILD)
    assert CODEX.sessions(location(tmp_path)) == [CODEX_SESSION]
    assert CODEX.sessions(location(tmp_path, "/elsewhere")) == [CHILD]
    begun = 1_794_729_600_000_000  # as AT says
    assert AT == "2026-11-15T08:00:00.000Z"
    assert CODEX.sessions(location(tmp_path), since_us=begun) == [CODEX_SESSION]
    assert CODEX.sessions(location(tmp_path), since_us=begun + 1) == []


def test_answers_are_spelled_after_their_calls_and_numbered_on() -> None:
    patch = item(5, "custom_tool_call", name="apply_patch", input="*** Begin Patch", call_id="call_p")
    lines = [*codex_conversation()[:5], patch]
    assert [call.id for call in CODEX.pending(lines)] == ["call_1", "call_p"]
    results = {name: NativeResult(text=f"told {name}") for name in ("call_1", "call_p")}
    made = CODEX.answered(results, lines, at_us=0)
    assert [(line["ordinal"], line["payload"]["type"], line["payload"]["output"]) for line in made] == [
        (6, "function_call_output", "told call_1"),
        (7, "custom_tool_call_output", "told call_p"),
    ]


def test_calls_that_the_user_went_past_are_not_open() -> None:
    lines = [codex_meta(), said(1, "user", "do it"), function_call(2, "call_1")]
    assert [call.id for call in CODEX.pending(lines)] == ["call_1"]
    assert CODEX.pending([*lines, said(3, "user", "never mind")]) == []
    assert CODEX.pending([*lines, function_output(3, "call_1")]) == []


def test_an_old_rollout_without_numbers_goes_on_without() -> None:
    lines = [{name: value for name, value in line.items() if name != "ordinal"} for line in codex_conversation()[:5]]
    line = CODEX.asked(NativeCall(id="call_x", name="exec_command", arguments={"cmd": "x"}), lines, at_us=0)
    assert "ordinal" not in line


@pytest.mark.guarantee("G6")
def test_a_damaged_rollout_is_never_raised_on(tmp_path: Path, sample: Callable[..., int]) -> None:
    path = put(codex_conversation(), tmp_path)
    data, chance = path.read_bytes(), random.Random(4)
    for _ in range(sample(150, proof=20_000, teeth=300)):
        damaged = bytearray(data)
        for _ in range(chance.randrange(1, 8)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        path.write_bytes(damaged[: chance.randrange(len(damaged))])
        found = CODEX.read(path)
        assert path.read_bytes()[found.offset :] == found.torn
        lines = [entry.line for entry in found.entries]
        calls = CODEX.pending(lines)
        assert len(CODEX.answered({call.id: NativeResult(text="x") for call in calls}, lines, at_us=0)) == len(calls)
