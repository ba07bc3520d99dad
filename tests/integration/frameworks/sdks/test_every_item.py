"""Whatever kind of item or block an API may answer with is sent back as that API takes it, by the SDKs' own types."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

import anthropic.types as messages
import anthropic.types.beta as beta
import openai.types.responses as responses
import pytest
from pydantic import TypeAdapter
from typing_extensions import get_type_hints, is_typeddict

import relight
from relight.journal.conversation.provider_responses import sendable
from relight.journal.conversation.reply_ends import EMPTY_REPLY
from relight.journal.formats.anthropic import ANTHROPIC
from relight.journal.formats.openai_responses import OPENAI_RESPONSES
from tests.support.simulation import Simulation

APIS = {
    "messages": (messages.ContentBlock, messages.ContentBlockParam),
    "beta messages": (beta.BetaContentBlock, beta.BetaContentBlockParam),
    "responses": (responses.ResponseOutputItem, responses.ResponseInputItemParam),
}
ELSEWHERE = ("_call_output", "computer_call", "mcp_approval_request")
"""outputs, which are the program's, and what is refused by name"""
CALL = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "look", "arguments": "{}"}
USE = {"type": "tool_use", "id": "t1", "name": "look", "input": {}}
SAYS = {"role": "assistant", "content": "done"}


def arms(union: Any) -> Iterator[Any]:
    """The classes of a union, however it is nested and annotated."""
    parts = get_args(union)
    if parts and not hasattr(union, "model_fields"):
        for part in parts:
            yield from arms(part)
    elif is_typeddict(union) or hasattr(union, "model_fields"):
        yield union


def kind_of(arm: Any) -> Any:
    """The `type` of such an item."""
    known = arm.model_fields if hasattr(arm, "model_fields") else None
    annotation = known["type"].annotation if known is not None else get_type_hints(arm).get("type")
    return (get_args(annotation) or (None,))[0]


@pytest.mark.parametrize("api", APIS)
def test_every_kind_of_item_is_sent_back_with_the_fields_that_its_api_takes(api: str) -> None:
    answered, taken = APIS[api]
    fields: dict[str, set[str]] = {}
    for arm in filter(is_typeddict, arms(taken)):
        fields.setdefault(kind_of(arm), set()).update(get_type_hints(arm))
    seen = 0
    for arm in arms(answered):
        kind = kind_of(arm)
        if kind not in fields or kind.endswith(ELSEWHERE):
            continue
        item = {**dict.fromkeys(arm.model_fields, "x"), "type": kind}  # as model_dump() names them
        block = {"role": "assistant", "content": [item]}
        sent = sendable(item, OPENAI_RESPONSES) if api == "responses" else sendable(block, ANTHROPIC)["content"][0]
        assert set(sent) <= fields[kind], (kind, set(sent) - fields[kind])
        seen += 1
    assert seen > 8


def test_a_call_by_the_providers_own_program_is_answered_to_that_program() -> None:
    caller = {"type": "program", "caller_id": "prog_1"}
    program = {"type": "program", "id": "prg_1", "call_id": "prog_1", "code": "look()", "fingerprint": "f"}
    replies = [
        [program, {**CALL, "caller": caller}],
        [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "done"}]}],
    ]
    with Simulation().start().session("a", provider="openai-responses") as s:
        assert s.run(lambda asked: replies.pop(0), tools={"look": lambda: "fine"}, prompt="go") == "done"
        assert s.messages[3] == {
            "type": "function_call_output", "call_id": "c1", "output": "fine", "caller": caller
        }  # fmt: skip


def test_tools_that_the_provider_adds_and_searches_itself_are_part_of_its_reply() -> None:
    added = {"type": "additional_tools", "id": "at_1", "role": "developer", "tools": []}
    search = {"type": "tool_search_call", "id": "ts_1", "call_id": "x", "execution": "server", "arguments": {}}
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "done"}]}
    with Simulation().start().session("a", provider="openai-responses") as s:
        assert s.run(lambda asked: [search, added, said], prompt="go") == "done"
    with (
        pytest.raises(relight.errors.InvalidMessage, match="tool_search_call"),
        Simulation().start().session("b", provider="openai-responses") as s,
    ):
        s.run(lambda asked: [{**search, "execution": "client"}, said], prompt="go")


RESULTS = {
    "web_search": "web_search_tool_result",
    "web_fetch": "web_fetch_tool_result",
    "code_execution": "code_execution_tool_result",
    "bash_code_execution": "bash_code_execution_tool_result",
    "text_editor_code_execution": "text_editor_code_execution_tool_result",
    "tool_search_tool_regex": "tool_search_tool_result",
    "tool_search_tool_bm25": "tool_search_tool_result",
    "advisor": "advisor_tool_result",
    "mcp_tool_use": "mcp_tool_result",
}
"""the provider's own tools, and the type of the result of each"""


@pytest.mark.parametrize("entry", ["run", "prompt", "append", "batch", "send", "fork"])
@pytest.mark.parametrize("own_call", [False, True], ids=["paused", "beside a call of ours"])
def test_a_users_turn_ends_the_calls_that_the_provider_has_not_ended(entry: str, own_call: bool) -> None:
    begun = [
        {"type": "mcp_tool_use", "id": name, "name": name, "server_name": "m", "input": {}}
        if name == "mcp_tool_use"
        else {"type": "server_tool_use", "id": name, "name": name, "input": {}}
        for name in RESULTS
    ]
    ended = {"type": "web_search_tool_result", "tool_use_id": "web_search", "content": []}
    use = [USE] if own_call else []
    rl = Simulation().start()
    with rl.session("a", provider="anthropic") as s:
        s.append({"role": "user", "content": "go"})
        s.append({"role": "assistant", "content": begun[:1]})
        s.append({"role": "assistant", "content": [ended, *begun[1:], *use]})
        if entry == "prompt":
            s.prompt("next")
        elif entry == "append":
            s.append({"role": "user", "content": "next"})
        elif entry == "batch":
            with s.batch():
                s.append({"role": "user", "content": "next"})
    if entry == "send":
        rl.runs.send("a", "next")
    name = rl.history.fork("a", prompt="next").id if entry == "fork" else "a"
    shown: list[Any] = []

    def seen(asked: list[dict[str, Any]]) -> Any:
        shown.append(asked)
        return SAYS

    with rl.session(name) as s:
        s.run(seen, tools={"look": lambda: "ok"}, prompt="next")
    added = shown[0][3:]
    roles = ["assistant", "user"] if not own_call else ["user", "assistant", "user"]
    if own_call and entry in ("send", "fork"):  # the call is ours to run until then
        roles = ["assistant", "user", "user"]
    assert [message["role"] for message in added] == roles
    assert added[-1] == {"role": "user", "content": "next"}
    results = next(message["content"] for message in added if message["role"] == "assistant")
    assert [(one["tool_use_id"], one["type"]) for one in results] == list(RESULTS.items())[1:]
    takes = {kind_of(arm): arm for arm in arms(beta.BetaContentBlockParam)}
    for block in results:
        TypeAdapter(takes[block["type"]]).validate_python(block)


def test_a_turn_that_the_provider_continues_is_sent_back_as_it_was() -> None:
    search = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
    with Simulation().start().session("a", provider="anthropic") as s:
        s.append([{"role": "user", "content": "go"}, {"role": "assistant", "content": [search, USE]}])
        s.run(lambda asked: SAYS, tools={"look": lambda: "fine"})
        assert [message["role"] for message in s.messages] == ["user", "assistant", "user", "assistant"]
        assert s.messages[2]["content"] == [{"type": "tool_result", "tool_use_id": "t1", "content": "fine"}]


def test_a_compaction_goes_back_whole_and_the_turn_goes_on_also_if_it_was_streamed() -> None:
    told = {"content": "so far: nothing", "encrypted_content": "e"}
    begun: dict[str, Any] = {"type": "message", "role": "assistant", "content": [], "stop_reason": None, "usage": {}}
    events = [
        {"type": "message_start", "message": begun},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "compaction", "content": None}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "compaction_delta", **told}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "compaction"}, "usage": {"output_tokens": 3}},
        {"type": "message_stop"},
    ]
    replies: list[Any] = [iter(events), SAYS]
    with Simulation().start().session("a", provider="anthropic") as s:
        assert s.run(lambda asked: replies.pop(0), prompt="go") == "done"
        assert s.messages[1] == {"role": "assistant", "content": [{"type": "compaction", **told}]}


THINKING = {"type": "thinking", "thinking": "hm", "signature": "s"}
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}
SAID = {"type": "text", "text": "so"}


@pytest.mark.parametrize(
    ("content", "kept"),
    [
        ([THINKING], [THINKING, {"type": "text", "text": EMPTY_REPLY}]),
        ([SAID, {"type": "redacted_thinking", "data": "x"}], None),
        ([{"type": "text", "text": " \n"}], [{"type": "text", "text": EMPTY_REPLY}]),
        ([{"type": "text", "text": "\n\n"}, SAID], [SAID]),
    ],
)
def test_content_of_a_reply_that_anthropic_refuses_to_read_again_gets_a_text(content: Any, kept: Any) -> None:
    whole = {"type": "message", "role": "assistant", "content": content, "stop_reason": "max_tokens"}
    with Simulation().start().session("a") as s:
        s.run(lambda asked: whole, prompt="go")
        assert s.messages[1]["content"] == (kept or [*content, {"type": "text", "text": EMPTY_REPLY}])


@pytest.mark.parametrize("status", ["completed", "incomplete"])
def test_reasoning_that_nothing_follows_is_not_sent_back(status: str) -> None:
    def answered(*output: Any) -> Any:
        return {"object": "response", "status": status, "output": list(output)}

    replies = [answered(REASONING, CALL, {**REASONING, "id": "rs_2"}), answered({**REASONING, "id": "rs_3"})]
    with Simulation().start().session("a", provider="openai-responses") as s:
        s.run(lambda asked: replies.pop(0), tools={"look": lambda: "fine"}, prompt="go")
        assert [item["type"] for item in s.messages[1:]] == [
            "reasoning", "function_call", "function_call_output", "message"
        ]  # fmt: skip
