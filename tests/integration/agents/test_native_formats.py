"""Lines of agents as a conversation: they are told apart, read as the provider's messages, and nothing is raised on."""

from __future__ import annotations

from typing import Any

import pytest

from relight.agents.claude_code.format import CLAUDE_CODE
from relight.agents.codex.format import CODEX
from relight.agents.gemini.format import GEMINI_CLI
from relight.agents.opencode.format import OPENCODE
from relight.agents.pi.format import PI
from relight.journal.formats.format import Format
from relight.journal.formats.registry import by_name, detect, formats
from relight.values.view import Call, Result, Text
from tests.support.transcripts import (
    claude_conversation,
    codex_conversation,
    gemini_conversation,
    opencode_conversation,
    pi_conversation,
    rollout_line,
    said,
)

NATIVE: tuple[tuple[Format, list[dict[str, Any]]], ...] = (
    (CLAUDE_CODE, claude_conversation()),
    (CODEX, codex_conversation()),
    (PI, pi_conversation()),
    (OPENCODE, opencode_conversation()),
    (GEMINI_CLI, gemini_conversation()),
)
ODD: list[dict[str, Any]] = [
    {},
    {"type": "user"},
    {"type": "assistant", "message": 7},
    {"type": [], "payload": {}},
    {"payload": [1]},
]


@pytest.mark.parametrize(("format", "lines"), NATIVE)
def test_every_line_is_recognised_by_its_own_format_alone(format: Format, lines: list[dict[str, Any]]) -> None:
    for line in lines:
        assert [one.name for one in formats() if one.recognises(line)] == [format.name]
    assert detect(lines) is format
    assert by_name(format.name) is format
    assert [one.name for one in formats() if one.native] == [one.name for one, _ in NATIVE]


@pytest.mark.parametrize(("format", "lines"), NATIVE)
def test_the_view_has_what_was_said_asked_and_answered(format: Format, lines: list[dict[str, Any]]) -> None:
    view = format.read(lines)
    assert {message.index for message in view} == set(range(len(lines)))
    blocks = [(message.role, block) for message in view for block in message.blocks]
    assert ("user", Text(text="do it é")) in blocks
    assert ("assistant", Text(text="all done")) in blocks
    calls = [block.id for _, block in blocks if isinstance(block, Call)]
    results = [block.call for role, block in blocks if isinstance(block, Result) and role == "tool"]
    assert len(calls) == 2
    assert sorted(calls) == sorted(results)
    assert [site.id for line in lines for site in format.calls(line)] == calls
    assert [name for line in lines for name in format.answers(line)] == results


@pytest.mark.parametrize(("format", "lines"), NATIVE)
def test_taking_results_out_and_putting_them_back_changes_nothing(format: Format, lines: list[dict[str, Any]]) -> None:
    for line in lines:
        fragments, rest = format.split(line)
        if format.answers(line):
            assert rest is None
            assert format.join([fragment for _, fragment in fragments], line) == [line]
        else:
            assert (fragments, rest) == ([], line)


@pytest.mark.parametrize(("format", "lines"), NATIVE)
def test_lines_that_are_none_are_answered(format: Format, lines: list[dict[str, Any]]) -> None:
    for odd in ODD:
        assert not format.recognises(odd)
        assert format.calls(odd) == ()
        assert format.answers(odd) == ()
        assert format.split(odd) == ([], odd)
        assert format.faults(odd) == []
        assert len(format.read([odd])) >= 1


def test_what_the_harness_says_in_the_users_name_is_the_systems() -> None:
    [view] = CODEX.read([said(1, "user", "<environment_context>\n  <cwd>/x</cwd>")])
    assert view.role == "system"
    meta = {**CLAUDE_CODE.user("Caveat: ..."), "isMeta": True}
    assert [message.role for message in CLAUDE_CODE.read([meta])] == ["system"]
    queued = {"type": "attachment", "attachment": {"type": "queued_command", "prompt": "and also this"}}
    assert [(one.role, one.blocks) for one in CLAUDE_CODE.read([queued])] == [("user", (Text(text="and also this"),))]


def test_a_compaction_is_read_as_the_items_it_carries() -> None:
    history = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "long ago"}]}]
    line = rollout_line(3, "compacted", {"message": "", "replacement_history": history})
    assert [(one.role, one.blocks, one.index) for one in CODEX.read([line])] == [("user", (Text(text="long ago"),), 0)]
    summary = rollout_line(3, "compacted", {"message": "in short"})
    assert [one.blocks for one in CODEX.read([summary])] == [(Text(text="in short"),)]
