"""Normalising gives every call exactly one result in its place, and lint sees every way in which that can fail."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relight.journal.formats.format import ToolResult
from relight.journal.formats.registry import by_name, detect
from relight.testing.conversation import lint
from relight.values.call import OUTCOME_UNKNOWN
from tests.support.normalise import normalise, open_calls
from tests.unit.journal.conversations import (
    FORMAT_NAMES,
    SHARED,
    Messages,
    as_message,
    call_ids,
    conversations,
    damaged_conversations,
    foreign_result,
    json_dicts,
    remove_results,
    result_id,
    results_of,
    without_results,
)

every_format = pytest.mark.parametrize("name", FORMAT_NAMES)


# ---------------------------------------------------------------- what normalising keeps and mends


@every_format
@given(data=st.data())
def test_a_valid_history_comes_back_as_the_same_objects(name: str, data: st.DataObject):
    messages = data.draw(conversations(name))
    assert lint(messages, by_name(name)) == []
    history = normalise(messages)
    assert len(history) == len(messages)
    assert all(ours is theirs for ours, theirs in zip(history, messages, strict=True))


@every_format
@given(data=st.data())
def test_a_history_cut_at_any_point_becomes_valid_and_keeps_its_messages(name: str, data: st.DataObject):
    messages = data.draw(conversations(name))
    for end in range(1, len(messages) + 1):
        history = normalise(messages[:end], format=by_name(name))
        assert lint(history, by_name(name)) == []
        assert call_ids(name, history) == [call for call, _ in results_of(name, history)]
        assert without_results(name, history) == without_results(name, messages[:end])


@every_format
@given(data=st.data())
def test_a_damaged_history_becomes_valid(name: str, data: st.DataObject):
    messages = data.draw(damaged_conversations(name))
    history = normalise(messages)
    assert lint(history) == []
    assert lint(history, by_name(name)) == []
    assert call_ids(name, history) == [call for call, _ in results_of(name, history)]


@every_format
@given(data=st.data())
def test_normalising_twice_changes_nothing_more(name: str, data: st.DataObject):
    once = normalise(data.draw(damaged_conversations(name)))
    assert normalise(once) == once


@every_format
@given(data=st.data())
def test_only_results_are_moved_made_up_or_dropped(name: str, data: st.DataObject):
    messages = data.draw(damaged_conversations(name))
    before = json.dumps(messages)
    assert without_results(name, normalise(messages)) == without_results(name, messages)
    assert json.dumps(messages) == before


@every_format
@given(data=st.data())
def test_it_changes_exactly_what_lint_complains_about(name: str, data: st.DataObject):
    messages = data.draw(damaged_conversations(name))
    assert (lint(messages) == []) == (normalise(messages) == messages)


@every_format
@given(data=st.data())
def test_surviving_results_stay_and_lost_ones_are_unknown(name: str, data: st.DataObject):
    messages = data.draw(conversations(name))
    before = dict(results_of(name, messages))
    lost = data.draw(st.sets(st.sampled_from(sorted(before)))) if before else set()
    for call, result in results_of(name, normalise(remove_results(name, messages, lost))):
        if call in lost:
            assert OUTCOME_UNKNOWN in json.dumps(result)
        else:
            assert result is before[call]


@every_format
@given(data=st.data())
def test_open_calls_are_those_without_a_result_in_order(name: str, data: st.DataObject):
    messages = data.draw(conversations(name))
    ids = call_ids(name, messages)
    lost = data.draw(st.sets(st.sampled_from(ids))) if ids else set()
    torn = remove_results(name, messages, lost)
    assert [site.id for site in open_calls(torn)] == [call for call in ids if call in lost]
    assert open_calls(normalise(torn)) == []


@every_format
@given(data=st.data())
def test_given_results_fill_gaps_and_never_replace(name: str, data: st.DataObject):
    messages = data.draw(conversations(name))
    before = dict(results_of(name, messages))
    lost = data.draw(st.sets(st.sampled_from(sorted(before)))) if before else set()
    given_results = {call: ToolResult(call_id=call, content=f"late {call}") for call in before}
    history = normalise(remove_results(name, messages, lost), results=given_results)
    assert lint(history) == []
    for call, result in results_of(name, history):
        if call in lost:
            assert f"late {call}" in json.dumps(result)
        else:
            assert result is before[call]


@every_format
def test_the_first_of_two_results_wins(name: str):
    messages = exchange(name, "a")
    second = [as_message(name, {**foreign_result(name, "a"), "note": "second"})]
    assert normalise(messages + second) == messages


@every_format
def test_a_result_before_its_call_is_no_result(name: str):
    prompt, *rest = exchange(name, "a")
    early = [prompt, as_message(name, foreign_result(name, "a")), *remove_results(name, rest, {"a"})]
    assert OUTCOME_UNKNOWN in json.dumps(normalise(early))
    assert lint(normalise(early)) == []


@every_format
def test_an_id_used_again_is_answered_where_it_stands(name: str):
    first, second = exchange(name, "a"), exchange(name, "a")
    messages = remove_results(name, first, {"a"}) + second
    history = normalise(messages)
    assert normalise(history) == history
    assert [OUTCOME_UNKNOWN in json.dumps(result) for _, result in results_of(name, history)] == [True, False]
    assert kinds_of_fault(history) == {"is not unique"}


@every_format
def test_calls_of_one_reply_that_share_an_id_are_answered_in_order(name: str):
    messages = exchange(name, "a", "a")
    assert normalise(messages) == messages
    lone = remove_results(name, messages, {"a"})
    assert [call for call, _ in results_of(name, normalise(lone))] == ["a", "a"]


@every_format
def test_the_text_for_an_unknown_outcome_can_be_chosen(name: str):
    messages = remove_results(name, exchange(name, "a"), {"a"})
    assert "ask the bank" in json.dumps(normalise(messages, unknown="ask the bank"))


def test_words_of_the_user_stay_with_the_results_they_came_with():
    prompt, reply, results = exchange("anthropic", "a", "b")
    words = {"type": "text", "text": "hurry"}
    torn = [prompt, reply, {**results, "content": [words, results["content"][1]], "note": "kept"}]
    history = normalise(torn)
    assert len(history) == 3
    assert history[2]["note"] == "kept"
    assert [block["type"] for block in history[2]["content"]] == ["tool_result", "tool_result", "text"]


def test_a_reply_in_items_keeps_its_reasoning_between_its_calls():
    items: Messages = [
        {"type": "message", "role": "user", "content": "go"},
        {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
        {"type": "reasoning", "summary": []},
        {"type": "function_call", "call_id": "b", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "b", "output": "2"},
        {"type": "function_call_output", "call_id": "a", "output": "1"},
    ]
    assert normalise(items) == [*items[:4], items[5], items[4]]


@pytest.mark.parametrize(
    ("kind", "field", "output"),
    [
        ("function_call", "arguments", "function_call_output"),
        ("custom_tool_call", "input", "custom_tool_call_output"),
        ("local_shell_call", "action", "function_call_output"),
        ("shell_call", "action", "shell_call_output"),
        ("apply_patch_call", "operation", "apply_patch_call_output"),
    ],
)
def test_a_made_up_output_is_of_the_type_its_call_wants(kind: str, field: str, output: str):
    call = {"type": kind, "call_id": "a", "name": "f", field: "x"}
    history = normalise([call])
    assert [item["type"] for item in history] == [kind, output]
    assert OUTCOME_UNKNOWN in json.dumps(history)
    assert lint(history) == []


# ---------------------------------------------------------------- negative controls: lint sees damage


@every_format
def test_lint_sees_a_missing_result(name: str):
    assert kinds_of_fault(remove_results(name, exchange(name, "a", "b"), {"b"})) == {"no result yet"}


@every_format
def test_lint_sees_a_missing_result_at_the_end(name: str):
    assert kinds_of_fault(remove_results(name, exchange(name, "a"), {"a"})) == {"no result yet"}


@every_format
def test_lint_sees_a_second_result(name: str):
    assert kinds_of_fault([*exchange(name, "a"), as_message(name, foreign_result(name, "a"))]) == {"second result"}


@every_format
def test_lint_sees_a_result_without_a_call(name: str):
    assert kinds_of_fault([*exchange(name, "a"), as_message(name, foreign_result(name))]) == {"result without a call"}


@every_format
def test_lint_sees_a_result_before_its_call(name: str):
    prompt, *rest = exchange(name, "a")
    early = [prompt, as_message(name, foreign_result(name, "a")), *remove_results(name, rest, {"a"})]
    assert kinds_of_fault(early) == {"result without a call", "no result yet"}


@every_format
def test_lint_sees_a_word_between_a_reply_and_its_results(name: str):
    messages = exchange(name, "a")
    first = next(i for i, message in enumerate(messages) if results_of(name, [message]))
    interrupted = [*messages[:first], {"role": "user", "content": "wait"}, *messages[first:]]
    assert kinds_of_fault(interrupted) == {"no result yet", "late result"}


@every_format
def test_lint_sees_results_out_of_call_order(name: str):
    assert kinds_of_fault(swapped(name, exchange(name, "a", "b"))) == {"is out of call order"}


@every_format
def test_lint_sees_an_id_used_twice(name: str):
    assert kinds_of_fault(exchange(name, "a") + exchange(name, "a")) == {"is not unique"}
    assert kinds_of_fault(exchange(name, "a", "a")) == {"is not unique"}


@every_format
@pytest.mark.parametrize("call", ["", "a b", "functions.f:0", "é", "a\n", "x" * 65])
def test_lint_sees_a_malformed_id(name: str, call: str):
    assert kinds_of_fault(exchange(name, call)) == {"malformed id"}
    assert kinds_of_fault(exchange(name, "x" * 64)) == set()


def test_lint_sees_results_of_one_reply_in_two_messages():
    prompt, reply, results = exchange("anthropic", "a", "b")
    split = [prompt, reply, *({**results, "content": [block]} for block in results["content"])]
    assert kinds_of_fault(split) == {"no result yet", "late result"}


def test_lint_sees_words_before_results():
    prompt, reply, results = exchange("anthropic", "a")
    late = {**results, "content": [{"type": "text", "text": "so"}, *results["content"]]}
    assert kinds_of_fault([prompt, reply, late]) == {"results do not come first"}


def test_lint_sees_an_item_between_the_last_call_and_its_output():
    items = exchange("openai_responses", "a")
    words = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "so"}]}
    assert kinds_of_fault([*items[:-1], words, items[-1]]) == {"is not directly after its reply"}


def test_lint_sees_a_history_that_does_not_open_with_the_user():
    assert kinds_of_fault(exchange("anthropic", "a")[1:]) == {"first message is not the user's"}


@every_format
def test_lint_sees_arguments_of_the_wrong_type(name: str):
    texts = ("{}", '"{}"') if name in SHARED else ('"{}"', "{}")
    wrong = json.loads(json.dumps(exchange(name, "a")).replace(*texts))
    assert len(kinds_of_fault(wrong) & {"are no object", "are no text"}) == 1


def test_lint_sees_an_item_id_of_the_wrong_kind():
    prompt, call, output = exchange("openai_responses", "a")
    assert kinds_of_fault([prompt, {**call, "id": "toolu_1"}, output]) == {"does not begin with fc"}
    assert kinds_of_fault([prompt, {**call, "id": "fc_1"}, output]) == set()


# ---------------------------------------------------------------- totality


@given(messages=st.lists(json_dicts(), max_size=6))
def test_arbitrary_json_is_normalised_without_an_error(messages: Messages):
    format = detect(messages)
    open_calls(messages)
    lint(messages)
    history = normalise(messages)
    assert open_calls(history, format) == []


@every_format
@given(messages=st.lists(json_dicts(), max_size=6))
def test_arbitrary_json_is_normalised_once_and_for_all(name: str, messages: Messages):
    format = by_name(name)
    lint(messages, format)
    once = normalise(messages, format=format)
    assert open_calls(once, format) == []
    assert normalise(once, format=format) == once


# ---------------------------------------------------------------- scenery

_FAULTS = (
    "no result yet",
    "second result",
    "late result",
    "result without a call",
    "is out of call order",
    "is not directly after its reply",
    "is not unique",
    "malformed id",
    "results do not come first",
    "first message is not the user's",
    "are no object",
    "are no text",
    "does not begin with fc",
)


def kinds_of_fault(messages: Messages) -> set[str]:
    """What lint complains of, by kind; a complaint of no known kind is an error of the test."""
    kinds = set()
    for fault in lint(messages):
        (kind,) = [kind for kind in _FAULTS if kind in fault]
        kinds.add(kind)
    return kinds


def exchange(name: str, *ids: str) -> Messages:
    """A prompt, one reply with these calls, their results."""
    prompt: dict[str, Any] = {"role": "user", "content": "go"}
    if name == "anthropic":
        calls = [{"type": "tool_use", "id": call, "name": "f", "input": {}} for call in ids]
        results = [foreign_result(name, call) for call in ids]
        return [prompt, {"role": "assistant", "content": calls}, {"role": "user", "content": results}]
    results = [foreign_result(name, call) for call in ids]
    if name == "bedrock":
        uses = [{"toolUse": {"toolUseId": call, "name": "f", "input": {}}} for call in ids]
        return [prompt, {"role": "assistant", "content": uses}, {"role": "user", "content": results}]
    if name == "gemini":
        parts = [{"functionCall": {"id": call, "name": "f", "args": {}}} for call in ids]
        prompt = {"role": "user", "parts": [{"text": "go"}]}
        return [prompt, {"role": "model", "parts": parts}, {"role": "user", "parts": results}]
    if name == "openai_chat":
        function = {"name": "f", "arguments": "{}"}
        calls = [{"id": call, "type": "function", "function": function} for call in ids]
        return [prompt, {"role": "assistant", "content": None, "tool_calls": calls}, *results]
    calls = [{"type": "function_call", "call_id": call, "name": "f", "arguments": "{}"} for call in ids]
    return [prompt, *calls, *results]


def swapped(name: str, messages: Messages) -> Messages:
    """The conversation with its last two results the other way round."""
    if name in SHARED:
        *before, last = messages
        return [*before, {**last, SHARED[name]: last[SHARED[name]][::-1]}]
    assert all(result_id(name, message) for message in messages[-2:])
    return [*messages[:-2], messages[-1], messages[-2]]
