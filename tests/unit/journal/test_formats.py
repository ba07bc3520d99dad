"""Each format reads its provider's dicts into one neutral view, writes results its provider takes, and never raises."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relight.journal.formats.format import CallSite, ToolResult
from relight.journal.formats.registry import by_name, detect, formats
from relight.testing.conversation import lint
from relight.values.call import NOT_RUN, OUTCOME_UNKNOWN
from relight.values.view import Block, Call, Image, Message, Reason, Result, ResultStatus, Text, op_of
from tests.support.normalise import normalise, open_calls
from tests.unit.journal.conversations import (
    FORMAT_NAMES,
    Messages,
    call_ids,
    conversations,
    json_dicts,
    json_values,
    results_of,
    spoilt,
)

STATUSES: tuple[ResultStatus, ...] = get_args(ResultStatus)
every_format = pytest.mark.parametrize("name", FORMAT_NAMES)


# ---------------------------------------------------------------- which format is it


@every_format
@given(data=st.data())
def test_a_conversation_with_calls_is_recognised(name: str, data: st.DataObject):
    messages = data.draw(conversations(name).filter(lambda found: bool(call_ids(name, found))))
    assert detect(messages).name == name


@every_format
@given(data=st.data())
def test_no_format_claims_a_message_of_another(name: str, data: st.DataObject):
    for message in data.draw(conversations(name)):
        assert {format.name for format in formats() if format.recognises(message)} <= {name}


@pytest.mark.parametrize(
    ("provider", "name"),
    [
        (None, "openai_chat"),
        ("openai", "openai_chat"),
        ("Anthropic", "anthropic"),
        ("openai-responses", "openai_responses"),
        ("somebody", "openai_chat"),
        ("bedrock-converse", "bedrock"),
        ("google-genai", "gemini"),
        ("gemini", "openai_chat"),
    ],
)
def test_the_provider_decides_only_where_no_message_tells(provider: str | None, name: str):
    plain: Messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]
    assert detect([], provider).name == name
    assert detect(plain, provider).name == name
    telling = {"role": "tool", "tool_call_id": "a", "content": ""}
    assert detect([*plain, telling], provider).name == "openai_chat"


@pytest.mark.parametrize(
    ("message", "name"),
    [
        (
            {"type": "message", "role": "assistant", "content": [{"type": "text"}], "stop_reason": "end_turn"},
            "anthropic",
        ),
        ({"role": "user", "content": [{"type": "image", "source": {"type": "base64"}}]}, "anthropic"),
        ({"role": "assistant", "content": None}, "openai_chat"),
        ({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}, "openai_chat"),
        ({"role": "assistant", "content": "", "function_call": {"name": "f"}}, "openai_chat"),
        ({"role": "user", "content": [{"type": "input_text", "text": "x"}]}, "openai_responses"),
        ({"type": "message", "role": "user", "content": "x"}, "openai_responses"),
        ({"type": "web_search_call", "id": "ws_1"}, "openai_responses"),
        ({"role": "user", "content": [{"text": "x"}]}, "bedrock"),
        ({"role": "assistant", "content": [{"toolUse": {"toolUseId": "a", "name": "f", "input": {}}}]}, "bedrock"),
        ({"role": "user", "parts": [{"text": "x"}]}, "gemini"),
        ({"parts": [{"function_call": {"name": "f"}}], "role": "model"}, "gemini"),
    ],
)
def test_one_telling_message_is_enough(message: dict[str, Any], name: str):
    assert [format.name for format in formats() if format.recognises(message)] == [name]


def test_a_format_is_found_by_its_name_and_an_unknown_name_is_refused():
    assert [by_name(name).name for name in FORMAT_NAMES] == list(FORMAT_NAMES)
    with pytest.raises(LookupError, match="openai_chat"):
        by_name("morse")


# ---------------------------------------------------------------- calls, answers, results


@every_format
@given(data=st.data())
def test_calls_and_answers_are_found_in_order(name: str, data: st.DataObject):
    messages, format = data.draw(conversations(name)), by_name(name)
    assert [site.id for message in messages for site in format.calls(message)] == call_ids(name, messages)
    answers = [call for message in messages for call in format.answers(message)]
    assert answers == [call for call, _ in results_of(name, messages)]
    for message in messages:
        assert format.is_assistant(message) or not format.calls(message)
        assert not format.is_assistant(message) or not format.answers(message)


@every_format
@given(data=st.data())
def test_rendered_results_complete_their_reply(name: str, data: st.DataObject):
    """1 to 8 calls, any JSON as content, any status: the provider takes it and the view reads it back."""
    format = by_name(name)
    statuses = data.draw(st.lists(st.sampled_from(STATUSES), min_size=1, max_size=8))
    sites = [CallSite(id=f"c{n}", name="f", arguments="{}") for n in range(len(statuses))]
    results = [
        site.result(OUTCOME_UNKNOWN if status == "unknown" else data.draw(json_values()), status)
        for site, status in zip(sites, statuses, strict=True)
    ]
    messages = format.render(results)
    assert [call for message in messages for call in format.answers(message)] == [site.id for site in sites]
    assert lint([format.user("go"), *reply(name, sites), *messages], format) == []
    blocks = [block for message in format.read(messages) for block in message.blocks]
    read = [(block.call, block.status) for block in blocks if isinstance(block, Result)]
    assert read == [(site.id, status) for site, status in zip(sites, statuses, strict=True)]


@every_format
def test_nothing_is_rendered_for_no_results(name: str):
    assert by_name(name).render([]) == []


@every_format
@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("plain", "plain"),
        ({"a": [1, "é"]}, '{"a": [1, "é"]}'),
        ([], "[]"),
        (None, "null"),
        ([{"type": "bug", "id": 7}], '[{"type": "bug", "id": 7}]'),
    ],
)
def test_content_that_is_no_text_becomes_json_text(name: str, content: Any, text: str):
    format = by_name(name)
    result = ToolResult(call_id="a", content=content)
    assert blocks_of(name, format.render([result])) == [Result(call="a", text=text)]


@pytest.mark.parametrize(
    ("name", "block"),
    [
        ("anthropic", {"type": "text", "text": "x"}),
        ("openai_chat", {"type": "text", "text": "x"}),
        ("openai_responses", {"type": "input_text", "text": "x"}),
    ],
)
def test_the_providers_own_content_blocks_are_kept(name: str, block: dict[str, Any]):
    fragment = by_name(name).fragment(ToolResult(call_id="a", content=[block]))
    assert [block] in (fragment.get("content"), fragment.get("output"))
    failed = by_name(name).render([ToolResult(call_id="a", content=[block], status="error")])
    assert blocks_of(name, failed) == [Result(call="a", status="error", text="x")]


@every_format
def test_an_error_is_still_an_error_after_reading_and_rendering_again(name: str):
    content, format = "boom", by_name(name)
    for _ in range(3):
        (read,) = blocks_of(name, format.render([ToolResult(call_id="a", content=content, status="error")]))
        assert read == Result(call="a", status="error", text="boom")


@every_format
def test_what_relight_wrote_itself_is_read_as_synthetic(name: str):
    format = by_name(name)
    written: dict[str, ResultStatus] = {OUTCOME_UNKNOWN: "unknown", NOT_RUN: "error"}
    for text, status in written.items():
        (read,) = blocks_of(name, format.render([ToolResult(call_id="a", content=text, status=status)]))
        assert read == Result(call="a", status=status, text=text, synthetic=True)


def test_anthropic_flags_every_result_that_is_not_ok():
    results = [ToolResult(call_id=status, content="x", status=status) for status in ("ok", "error", "unknown")]
    (message,) = by_name("anthropic").render(results)
    assert [block.get("is_error", False) for block in message["content"]] == [False, True, True]


def test_arguments_are_parsed_on_demand_and_kept_as_text_where_they_do_not_parse():
    parsed = {
        text: CallSite(id="a", name="f", arguments=text).parsed()
        for text in ('{"a": 1}', '{"a":', "[1]", "", '{"a": NaN}', "[" * 100_000)
    }
    assert parsed.pop('{"a": 1}') == {"a": 1}
    assert parsed.pop("") == {}, "a call without arguments, as some servers write it"
    assert all(value == text for text, value in parsed.items())
    assert CallSite(id="a", name="f", arguments="{}", kind="custom").parsed() == "{}"


# ---------------------------------------------------------------- the view


@every_format
@given(data=st.data())
def test_every_dict_has_its_place_in_the_view(name: str, data: st.DataObject):
    messages, format = data.draw(conversations(name)), by_name(name)
    view = format.read(messages)
    indexes = [message.index for message in view]
    assert indexes == sorted(indexes)
    assert set(indexes) == set(range(len(messages)))
    blocks = [block for message in view for block in message.blocks]
    assert [block.id for block in blocks if isinstance(block, Call)] == call_ids(name, messages)
    results = [call for call, _ in results_of(name, messages)]
    assert [block.call for block in blocks if isinstance(block, Result)] == results
    for message in view:
        assert (message.role == "tool") == any(isinstance(block, Result) for block in message.blocks)


@every_format
def test_what_a_format_says_it_reads_back(name: str):
    format = by_name(name)
    said = [format.user("hi"), format.assistant("ho")]
    assert format.read(said) == [
        Message(role="user", blocks=(Text(text="hi"),), index=0),
        Message(role="assistant", blocks=(Text(text="ho"),), index=1),
    ]
    assert [format.is_assistant(message) for message in said] == [False, True]
    assert lint(said, format) == []


SEEN: list[Message] = [
    Message(role="user", blocks=(Text(text="look"), Image(media="image/png", data="aGk=")), index=0),
    Message(
        role="assistant",
        blocks=(
            Reason(text="hm", opaque="sig"),
            Text(text="so"),
            Call(id="a", name="Bash", arguments={"command": "ls"}, op="shell"),
            Call(id="b", name="charge", arguments={}, op="other"),
        ),
        index=1,
    ),
    Message(
        role="tool",
        blocks=(Result(call="a", text="x"), Result(call="b", status="error", text="no funds")),
        index=2,
    ),
    Message(role="user", blocks=(Text(text="go on"),), index=2),
]


IMAGE = "data:image/png;base64,aGk="
WRITTEN: dict[str, Messages] = {
    "anthropic": [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "look"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}},
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "sig"},
                {"type": "text", "text": "so"},
                {"type": "tool_use", "id": "a", "name": "Bash", "input": {"command": "ls"}},
                {"type": "tool_use", "id": "b", "name": "charge", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "x"}]},
                {"type": "tool_result", "tool_use_id": "b", "content": "no funds", "is_error": True},
                {"type": "text", "text": "go on"},
            ],
        },
    ],
    "openai_chat": [
        {
            "role": "user",
            "content": [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": IMAGE}}],
        },
        {
            "role": "assistant",
            "content": "so",
            "reasoning_content": "hm",
            "tool_calls": [
                {"id": "a", "function": {"name": "Bash", "arguments": '{"command": "ls"}'}},
                {"id": "b", "function": {"name": "charge", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": "x"},
        {"role": "tool", "tool_call_id": "b", "content": "[error] no funds"},
        {"role": "user", "content": "go on"},
    ],
    "openai_responses": [
        {
            "role": "user",
            "content": [{"type": "input_text", "text": "look"}, {"type": "input_image", "image_url": IMAGE}],
        },
        {
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": "hm"}],
            "encrypted_content": "sig",
        },
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "so"}]},
        {"type": "function_call", "call_id": "a", "name": "Bash", "arguments": '{"command": "ls"}'},
        {"type": "function_call", "call_id": "b", "name": "charge", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "a", "output": [{"type": "input_text", "text": "x"}]},
        {"type": "function_call_output", "call_id": "b", "output": "[error] no funds"},
        {"role": "user", "content": "go on"},
    ],
    "bedrock": [
        {
            "role": "user",
            "content": [{"text": "look"}, {"image": {"format": "png", "source": {"bytes": "aGk="}}}],
        },
        {
            "role": "assistant",
            "content": [
                {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "sig"}}},
                {"text": "so"},
                {"toolUse": {"toolUseId": "a", "name": "Bash", "input": {"command": "ls"}}},
                {"toolUse": {"toolUseId": "b", "name": "charge", "input": {}}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"toolResult": {"toolUseId": "a", "content": [{"text": "x"}]}},
                {"toolResult": {"toolUseId": "b", "content": [{"text": "no funds"}], "status": "error"}},
                {"text": "go on"},
            ],
        },
    ],
    "gemini": [
        {
            "role": "user",
            "parts": [{"text": "look"}, {"inlineData": {"mimeType": "image/png", "data": "aGk="}}],
        },
        {
            "role": "model",
            "parts": [
                {"text": "hm", "thought": True, "thoughtSignature": "sig"},
                {"text": "so"},
                {"functionCall": {"id": "a", "name": "Bash", "args": {"command": "ls"}}},
                {"functionCall": {"id": "b", "name": "charge"}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"id": "a", "name": "Bash", "response": {"output": "x"}}},
                {"functionResponse": {"id": "b", "name": "charge", "response": {"error": "no funds"}}},
                {"text": "go on"},
            ],
        },
    ],
}
SHELL: Messages = [
    {"type": "shell_call", "call_id": "a", "action": {"commands": ["ls"]}},
    {"type": "local_shell_call", "id": "b", "action": {"command": ["ls"]}},
    {"type": "custom_tool_call", "call_id": "c", "name": "apply_patch", "input": "*** Begin Patch"},
    {"type": "shell_call_output", "call_id": "a", "output": [{"stdout": "x", "outcome": {"exit_code": 0}}]},
    {"type": "local_shell_call_output", "id": "b", "output": "x"},
    {"type": "custom_tool_call_output", "call_id": "c", "output": "x"},
]


@every_format
def test_the_same_conversation_has_the_same_view_in_every_format(name: str):
    seen = flat(SEEN)
    if name == "openai_chat":  # which has nothing opaque
        seen = [(role, Reason(text=said.text) if isinstance(said, Reason) else said) for role, said in seen]
    assert flat(by_name(name).read(WRITTEN[name])) == seen
    assert lint(WRITTEN[name], by_name(name)) == []


def test_a_user_dict_with_results_and_words_is_two_messages():
    assert by_name("anthropic").read(WRITTEN["anthropic"]) == SEEN


def test_every_type_of_call_item_is_paired_and_seen():
    format = by_name("openai_responses")
    assert lint(SHELL) == []
    assert [site.id for item in SHELL for site in format.calls(item)] == ["a", "b", "c"]
    calls = [block for block in blocks_of(format.name, SHELL) if isinstance(block, Call)]
    assert [call.op for call in calls] == ["shell", "shell", "patch"]


@pytest.mark.parametrize(
    ("item", "status"),
    [
        ({"type": "function_call_output", "output": "Wall time: 1\nProcess exited with code 0\nOutput:"}, "ok"),
        (
            {"type": "function_call_output", "output": "Wall time: 1\nProcess exited with code 10\nOutput:"},
            "error",
        ),
        ({"type": "apply_patch_call_output", "status": "failed", "output": "conflict"}, "error"),
        ({"type": "shell_call_output", "output": [{"stdout": "x", "outcome": {"exit_code": 0}}]}, "ok"),
        ({"type": "shell_call_output", "output": [{"stdout": "x", "outcome": {"exit_code": 2}}]}, "error"),
        ({"type": "shell_call_output", "output": [{"stdout": "x", "outcome": {"type": "timeout"}}]}, "error"),
    ],
)
def test_a_failed_command_is_read_as_an_error(item: dict[str, Any], status: str):
    (read,) = blocks_of("openai_responses", [{"call_id": "a", **item}])
    assert isinstance(read, Result)
    assert read.status == status


def test_images_of_a_result_follow_it():
    source = {"type": "url", "url": "https://example.org/x.png"}
    content = [{"type": "image", "source": source}, {"type": "text", "text": "seen"}]
    result = {"type": "tool_result", "tool_use_id": "a", "content": content}
    assert blocks_of("anthropic", [{"role": "user", "content": [result]}]) == [
        Result(call="a", text="seen"),
        Image(url="https://example.org/x.png"),
    ]


def test_a_tool_that_the_provider_runs_is_seen_and_is_no_call_of_ours():
    blocks = [
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "x"}},
        {"type": "web_search_tool_result", "tool_use_id": "s", "content": []},
    ]
    message = {"role": "assistant", "content": blocks}
    assert by_name("anthropic").calls(message) == ()
    assert [type(block) for block in blocks_of("anthropic", [message])] == [Call, Result]


@pytest.mark.parametrize(
    ("tool", "op"),
    [
        ("Bash", "shell"),
        ("exec_command", "shell"),
        ("Write", "write"),
        ("MultiEdit", "edit"),
        ("read_file", "read"),
        ("apply_patch", "patch"),
        ("mcp__bank__charge", "other"),
        ("", "other"),
    ],
)
def test_a_tools_meaning_is_known_by_its_name(tool: str, op: str):
    assert op_of(tool) == op


# ---------------------------------------------------------------- totality


def check_total(name: str, messages: Messages) -> None:
    """Nothing raises, and the answers agree with one another."""
    format = by_name(name)
    detect(messages)
    assert {message.index for message in format.read(messages)} == set(range(len(messages)))
    for message in messages:
        answers, (fragments, rest) = format.answers(message), format.split(message)
        assert [call for call, _ in fragments] == list(answers)
        assert answers or rest is message
        assert not (answers and format.calls(message))
        assert isinstance(format.recognises(message), bool)
        assert isinstance(format.is_assistant(message), bool)
        assert all(isinstance(fault, str) for fault in format.faults(message))
        assert all(isinstance(site.parsed(), dict | str) for site in format.calls(message))
    history = normalise(messages, format=format)
    assert open_calls(history, format) == []
    assert normalise(history, format=format) == history


@every_format
@given(messages=st.lists(json_dicts(), max_size=4))
def test_arbitrary_json_is_read_without_an_error(name: str, messages: Messages):
    check_total(name, messages)


@every_format
@pytest.mark.parametrize("written", [*FORMAT_NAMES, "shell"])
def test_any_field_may_be_missing_or_odd(name: str, written: str):
    for messages in spoilt(SHELL if written == "shell" else WRITTEN[written]):
        check_total(name, messages)


# ---------------------------------------------------------------- scenery


def blocks_of(name: str, messages: Messages) -> list[Block]:
    return [block for message in by_name(name).read(messages) for block in message.blocks]


def flat(messages: list[Message]) -> list[tuple[str, Block]]:
    """Who said what, whatever the grouping into messages."""
    return [(message.role, block) for message in messages for block in message.blocks]


def reply(name: str, sites: list[CallSite]) -> Messages:
    """A reply with these calls."""
    if name == "anthropic":
        blocks = [{"type": "tool_use", "id": site.id, "name": site.name, "input": {}} for site in sites]
        return [{"role": "assistant", "content": blocks}]
    if name == "bedrock":
        uses = [{"toolUse": {"toolUseId": site.id, "name": site.name, "input": {}}} for site in sites]
        return [{"role": "assistant", "content": uses}]
    if name == "gemini":
        parts = [{"functionCall": {"id": site.id, "name": site.name, "args": {}}} for site in sites]
        return [{"role": "model", "parts": parts}]
    if name == "openai_chat":
        calls = [{"id": site.id, "function": {"name": site.name, "arguments": "{}"}} for site in sites]
        return [{"role": "assistant", "content": None, "tool_calls": calls}]
    return [{"type": "function_call", "call_id": s.id, "name": s.name, "arguments": "{}"} for s in sites]
