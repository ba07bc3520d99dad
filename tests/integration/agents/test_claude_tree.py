"""Which lines of a transcript of Claude Code are the conversation, and what they tell."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from relight.agents.claude_code.adapter import ClaudeCode
from relight.agents.claude_code.directories import project_key
from relight.errors import Conflict
from relight.ports.agent import NativeCall, NativeResult, Surroundings, Transcript
from tests.support.transcripts import CLAUDE_SESSION, ClaudeLines, claude_conversation

CLAUDE = ClaudeCode()


def read(lines: list[dict[str, Any]], location: Path) -> Transcript:
    path = location / f"{CLAUDE_SESSION}.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return CLAUDE.read(path)


def uuids(found: Transcript) -> list[str]:
    return [entry.line["uuid"] for entry in found.entries]


def test_all_blocks_and_results_of_a_reply_are_read_whatever_order_the_results_came_in(tmp_path: Path) -> None:
    lines = claude_conversation()
    assert uuids(read(lines, tmp_path)) == [line["uuid"] for line in lines]


@pytest.mark.parametrize("last", ["toolu_1", "toolu_2", "toolu_3"])
def test_the_next_reply_may_hang_on_any_of_the_results(last: str, tmp_path: Path) -> None:
    made = ClaudeLines()
    made.user("do it")
    calls = {name: made.call("msg_1", name) for name in ("toolu_1", "toolu_2", "toolu_3")}
    results = {name: made.result(name, calls[name]) for name in calls}
    made.says("msg_2", "done", parent=results[last])
    assert uuids(read(made.lines, tmp_path)) == [line["uuid"] for line in made.lines]


def test_a_result_may_be_written_before_the_next_call_of_its_reply(tmp_path: Path) -> None:
    made = ClaudeLines()
    made.user("do it")
    one = made.call("msg_1", "toolu_1")
    made.result("toolu_1", one)
    two = made.call("msg_1", "toolu_2", parent=one)
    made.result("toolu_2", two)
    found = read(made.lines, tmp_path)
    assert uuids(found) == [line["uuid"] for line in made.lines]
    assert CLAUDE.pending([entry.line for entry in found.entries]) == []


def test_only_the_last_branch_counts(tmp_path: Path) -> None:
    made = ClaudeLines()
    made.user("the beginning")
    fork = made.says("msg_1", "yes")
    made.user("a wrong turn")
    made.call("msg_2", "toolu_wrong")
    made.user("another way", parent=fork)
    made.says("msg_3", "better")
    said = [entry.line["uuid"] for entry in read(made.lines, tmp_path).entries]
    assert said == [made.lines[location]["uuid"] for location in (0, 1, 4, 5)]


def test_a_first_prompt_that_was_taken_back_does_not_count(tmp_path: Path) -> None:
    made = ClaudeLines()
    made.user("never mind")
    made.user("do this", parent=None)
    made.says("msg_1", "done")
    assert uuids(read(made.lines, tmp_path)) == [line["uuid"] for line in made.lines[1:]]


def test_lines_of_sub_agents_and_bookkeeping_are_left_out(tmp_path: Path) -> None:
    made = ClaudeLines()
    made.user("do it")
    call = made.call("msg_1", "toolu_1")
    made.add("user", message={"role": "user", "content": "sub task"}, isSidechain=True, parent=None)
    made.call("msg_side", "toolu_side", isSidechain=True)
    made.add("progress", parent=call, data={})
    made.result("toolu_1", call)
    made.says("msg_2", "done")
    made.add("user", message={"role": "user", "content": "sub task"}, isSidechain=True, parent=None)
    loose = [{"type": "queue-operation"}, {"type": "cost-state", "sessionId": CLAUDE_SESSION}, {"type": "summary"}]
    found = read([*loose, *made.lines, *loose], tmp_path)
    assert uuids(found) == [made.lines[location]["uuid"] for location in (0, 1, 5, 6)]


def test_a_kind_of_line_nobody_knows_is_kept_where_it_stands_in_the_tree(tmp_path: Path) -> None:
    made = ClaudeLines()
    made.user("do it")
    made.add("of-tomorrow", thing=1)
    made.says("msg_1", "done")
    assert uuids(read(made.lines, tmp_path)) == [line["uuid"] for line in made.lines]


def test_an_unreadable_line_in_the_middle_does_not_cut_the_history(tmp_path: Path) -> None:
    lines = claude_conversation()
    path = tmp_path / f"{CLAUDE_SESSION}.jsonl"
    for broken in range(1, len(lines) - 1):
        spelled = [json.dumps(line) for line in lines]
        spelled[broken] = spelled[broken][:-9] + "\0"
        path.write_text("\n".join(spelled) + "\n")
        found = uuids(CLAUDE.read(path))
        assert found[0] == lines[0]["uuid"]
        assert found[-1] == lines[-1]["uuid"]


def test_a_loop_in_the_tree_ends(tmp_path: Path) -> None:
    made = ClaudeLines()
    first = made.user("do it")
    second = made.says("msg_1", "done")
    made.lines[0]["parentUuid"] = second
    assert uuids(read(made.lines, tmp_path)) == [first, second]


def test_compaction_leaves_its_summary_what_it_preserved_and_what_came_later(tmp_path: Path) -> None:
    made = ClaudeLines()
    made.user("long ago")
    kept = made.says("msg_1", "the last words before")
    boundary = made.add(
        "system",
        subtype="compact_boundary",
        parent=None,
        logicalParentUuid=kept,
        compactMetadata={"preservedMessages": {"uuids": [kept]}},
    )
    summary = made.user("summary of it all", isCompactSummary=True)
    prompt = made.user("now more", parent=kept)  # its parent may lie before the boundary
    end = made.says("msg_2", "done")
    found = read(made.lines, tmp_path)
    assert uuids(found) == [boundary, summary, kept, prompt, end]
    location = Surroundings(directory=str(tmp_path), environment={"HOME": str(tmp_path / "home")})
    name = CLAUDE.new_id()
    assert name is not None
    again = CLAUDE.read(CLAUDE.write([entry.line for entry in found.entries], name, location))
    assert uuids(again) == uuids(found)


def test_tokens_of_a_reply_are_counted_once_and_more_of_them_as_more(tmp_path: Path) -> None:
    made = ClaudeLines()
    made.user("do it")
    made.block("msg_1", {"type": "text", "text": "a"}, output=2)
    made.call("msg_1", "toolu_1", output=9)
    made.call("msg_1", "toolu_2", output=9)
    reported = [entry.usage for entry in read(made.lines, tmp_path).entries]
    assert [usage and (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens) for usage in reported] == [
        None,
        (100, 2, 30),
        (0, 7, 0),
        None,
    ]


def test_a_turn_ends_with_the_last_block_of_a_reply_that_asks_for_nothing(tmp_path: Path) -> None:
    made = ClaudeLines()
    made.user("do it")
    made.block("msg_1", {"type": "thinking", "thinking": "hm", "signature": ""}, stop="end_turn")
    made.says("msg_1", "done")
    made.user("more")
    made.block("msg_2", {"type": "text", "text": "a 529"}, stop="stop_sequence", isApiErrorMessage=True)
    assert [entry.ends_turn for entry in read(made.lines, tmp_path).entries] == [False, False, True, False, False]


def test_calls_that_the_user_went_past_are_not_open() -> None:
    made = ClaudeLines()
    made.user("do it")
    made.call("msg_1", "toolu_1")
    assert [call.id for call in CLAUDE.pending(made.lines)] == ["toolu_1"]
    made.user("never mind")
    assert CLAUDE.pending(made.lines) == []
    made.call("msg_2", "toolu_2")
    made.says("msg_3", "whatever it was")
    assert CLAUDE.pending(made.lines) == []


def test_an_answer_hangs_on_its_call_and_a_second_answer_is_not_made() -> None:
    made = ClaudeLines()
    made.user("do it")
    one, two = made.call("msg_1", "toolu_1"), made.call("msg_1", "toolu_2")
    made.result("toolu_2", two)
    [line] = CLAUDE.answered({name: NativeResult(text="x") for name in ("toolu_1", "toolu_2")}, made.lines, at_us=0)
    assert (line["parentUuid"], line["sourceToolAssistantUUID"]) == (one, one)
    assert (line["sessionId"], line["version"], line["timestamp"]) == (
        CLAUDE_SESSION,
        "2.1.325",
        "1970-01-01T00:00:00.000Z",
    )


def test_a_call_from_a_hook_joins_the_reply_it_must_belong_to() -> None:
    call = NativeCall(id="toolu_9", name="Bash", arguments={})
    made = ClaudeLines()
    made.user("do it")
    alone = CLAUDE.asked(call, made.lines, at_us=0)
    one = made.call("msg_1", "toolu_1")
    assert CLAUDE.asked(call, made.lines, at_us=0)["message"]["id"] == "msg_1"
    made.result("toolu_1", one)
    later = CLAUDE.asked(call, made.lines, at_us=0)
    assert "msg_1" not in (alone["message"]["id"], later["message"]["id"])


def test_a_result_finds_its_call_although_the_line_it_names_was_never_read(tmp_path: Path) -> None:
    made = ClaudeLines()
    made.user("do it")
    asked = CLAUDE.asked(NativeCall(id="toolu_1", name="Bash", arguments={}), made.lines, at_us=0)
    other = CLAUDE.asked(NativeCall(id="toolu_2", name="Bash", arguments={}), [*made.lines, asked], at_us=0)
    made.result("toolu_1", "99999999-9999-4999-8999-999999999999")
    lines = [made.lines[0], asked, other, made.lines[1]]
    name = CLAUDE.new_id()
    assert name is not None
    location = Surroundings(directory=str(tmp_path), environment={"HOME": str(tmp_path)})
    written = [entry.line for entry in CLAUDE.read(CLAUDE.write(lines, name, location)).entries]
    assert written[-1]["parentUuid"] == written[-1]["sourceToolAssistantUUID"] == asked["uuid"]
    assert {(line["sessionId"], line["cwd"]) for line in written} == {(name, str(tmp_path.resolve()))}


@pytest.mark.guarantee("G6")
def test_a_damaged_transcript_is_never_raised_on(tmp_path: Path, sample: Callable[..., int]) -> None:
    data = b"".join(json.dumps(line).encode() + b"\n" for line in claude_conversation())
    chance, path = random.Random(4), tmp_path / f"{CLAUDE_SESSION}.jsonl"
    for _ in range(sample(150, proof=20_000, teeth=300)):
        damaged = bytearray(data)
        for _ in range(chance.randrange(1, 8)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        path.write_bytes(damaged[: chance.randrange(len(damaged))])
        found = CLAUDE.read(path)
        assert path.read_bytes()[found.offset :] == found.torn
        lines = [entry.line for entry in found.entries]
        calls = CLAUDE.pending(lines)
        repair = CLAUDE.answered({call.id: NativeResult(text="x") for call in calls}, lines, at_us=0)
        assert len(repair) == len(calls)


def test_the_directory_of_a_project_is_named_as_claude_code_names_it(tmp_path: Path) -> None:
    assert project_key("/tmp/plain.dir_x") == "-tmp-plain-dir-x"
    assert project_key("/tmp/a\u0301-\u00e9-\U0001f600") == "-tmp-a------"
    long = "/tmp/adp/keys/" + "/".join(["long \u00e9" * 15] * 3)
    assert project_key(long).endswith("-long-ieldjx")  # as version 2.1.325 called it
    assert len(project_key(long)) == 207
    link = tmp_path / "link"
    (tmp_path / "real").mkdir()
    link.symlink_to(tmp_path / "real")
    assert project_key(str(link)) == project_key(str(tmp_path / "real"))


def test_another_configuration_directory_is_respected(tmp_path: Path) -> None:
    location = Surroundings(directory=str(tmp_path), environment={"HOME": "/nowhere", "CLAUDE_CONFIG_DIR": "conf"})
    path = CLAUDE.write(claude_conversation(), CLAUDE_SESSION, location)
    assert path.is_relative_to(tmp_path / "conf" / "projects")
    with pytest.raises(Conflict, match="exists already"):
        CLAUDE.write(claude_conversation(), CLAUDE_SESSION, location)


def test_a_project_directory_that_leads_elsewhere_is_not_written_to(tmp_path: Path) -> None:
    location = Surroundings(directory=str(tmp_path), environment={"HOME": str(tmp_path / "home")})
    outside, projects = tmp_path / "outside", tmp_path / "home" / ".claude" / "projects"
    outside.mkdir()
    projects.mkdir(parents=True)
    (projects / project_key(str(tmp_path))).symlink_to(outside)
    with pytest.raises(Exception, match="does not lie in"):
        CLAUDE.write(claude_conversation(), CLAUDE_SESSION, location)
    assert list(outside.iterdir()) == []
