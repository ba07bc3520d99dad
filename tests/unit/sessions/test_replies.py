"""What a model function returns: a reply of the session's form, or a refusal; cut off and paused is not done."""

from __future__ import annotations

from typing import Any

import pytest

import relight
from relight.errors import InvalidMessage
from tests.support.simulation import Simulation
from tests.unit.sessions.test_loop import Scripted, asks


def anthropic(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


USE = {"type": "tool_use", "id": "t1", "name": "t", "input": {}}
SEARCH = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}
UNKNOWN: dict[str, Any] = {
    "none": None,
    "text": "done",
    "object": object(),
    "a list of objects": {"role": "assistant", "content": [object()]},
    "iterator": iter(["Hel", "lo"]),
    "empty dict": {},
    "empty list": [],
    "two choices": {"choices": [{"message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}] * 2},
    "no message": {"choices": [{"text": "hi", "finish_reason": "stop"}]},
    "two candidates": {"candidates": [{"content": {"role": "model", "parts": [{"text": "hi"}]}}] * 2},
    "running response": {"id": "x", "object": "response", "output": [], "status": "in_progress"},
    "user": {"role": "user", "content": "hi"},
    "legacy call": {"role": "assistant", "content": None, "function_call": {"name": "t", "arguments": "{}"}},
    "calls that a helper left out": {
        "choices": [{"message": {"role": "assistant", "content": None}, "finish_reason": "tool_calls"}]
    },
    "odd tool call": {"role": "assistant", "tool_calls": [{"name": "t"}]},
    "computer": [{"type": "computer_call", "id": "c", "call_id": "cc", "action": {"type": "click"}}],
    "mcp approval": [{"type": "mcp_approval_request", "id": "m", "name": "f", "arguments": "{}"}],
    "another use": anthropic({"type": "robot_tool_use", "id": "r", "name": "t", "input": {}}),
}


@pytest.mark.parametrize("kind", UNKNOWN)
def test_a_reply_that_is_no_message_is_refused_at_the_first_one_and_nothing_of_it_is_kept(kind: str) -> None:
    world, asked = Simulation(), 0

    def model(messages: list[dict[str, Any]]) -> Any:
        nonlocal asked
        asked += 1
        return UNKNOWN[kind]

    with (
        pytest.raises(InvalidMessage, match=r"the model function returned .*return ") as refused,
        world.start().session("a") as s,
    ):
        s.run(model, tools={"t": lambda: "r"}, prompt="go")
    assert asked == 1
    assert "Anthropic Messages" in str(refused.value) + "".join(refused.value.hints)
    assert [one["content"] for one in world.restart().history.load("a").messages] == ["go"]


ITEM = {"type": "function_call", "call_id": "c", "name": "t", "arguments": "{}"}
BEDROCK_CALL = {"role": "assistant", "content": [{"toolUse": {"toolUseId": "t1", "name": "t", "input": {}}}]}
GEMINI_CALL = {"role": "model", "parts": [{"functionCall": {"name": "t", "args": {}}}]}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (anthropic(USE), asks(2)),
        (asks(1), anthropic(USE)),
        (asks(1), [ITEM]),
        (asks(1), BEDROCK_CALL),
        (anthropic(USE), GEMINI_CALL),
    ],
    ids=["chat in anthropic", "anthropic in chat", "responses in chat", "bedrock in chat", "gemini in anthropic"],
)
def test_a_call_in_another_providers_form_is_refused_and_never_left_unrun_in_silence(
    world: Simulation, first: Any, second: Any
) -> None:
    with pytest.raises(InvalidMessage, match="form of"), world.start().session("loop") as s:
        s.run(Scripted(first, second), tools={"t": lambda: "r"}, prompt="go")
    with world.start().session("by-hand") as s:
        s.append({"role": "user", "content": "go"})
        s.append(first)
        s.run_tool(s.pending_calls()[0], {"t": lambda: "r"})
        s.append(second)
        with pytest.raises(InvalidMessage, match="form of"):
            s.pending_calls()


def test_what_the_provider_ran_itself_and_what_it_adds_is_taken(world: Simulation) -> None:
    replies: list[Any] = [
        anthropic(SEARCH, FOUND, {"type": "a_new_kind_of_block"}, {"type": "text", "text": "done"}),
        [{"type": "web_search_call", "id": "w", "status": "completed"}, {"type": "brand_new_item"},
         {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "done"}]}],
        {"role": "assistant", "content": []},
    ]  # fmt: skip
    for number, reply in enumerate(replies):
        with world.start().session(f"a{number}") as s:
            s.run(Scripted(reply), prompt="go")
            assert s.status == "completed"


def test_thinking_in_the_content_of_a_chat_reply_is_no_other_form(world: Simulation) -> None:
    thinks = anthropic({"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "done"})
    with world.start().session("a") as s:
        assert s.run(Scripted(asks(1), thinks), tools={"t": lambda: "r"}, prompt="go") == "done"


def test_anthropics_whole_message_gives_content_usage_and_stop_reason(world: Simulation) -> None:
    whole = {
        **anthropic({"type": "text", "text": "half"}),
        "id": "msg_1",
        "type": "message",
        "model": "m",
        "stop_reason": "max_tokens",
        "stop_sequence": None,
        "usage": {"input_tokens": 5, "output_tokens": 7},
    }
    with world.start().session("a") as s:
        assert s.run(Scripted(whole), prompt="go") is None
        assert (s.status, s.usage.output_tokens) == ("halted", 7)
        assert s.messages[-1] == anthropic({"type": "text", "text": "half"}), "what is sent back is a message alone"


@pytest.mark.parametrize("stop", ["max_tokens", "length", "incomplete", "content_filter"])
def test_a_reply_that_was_cut_off_is_not_completed_and_may_go_on(world: Simulation, stop: str) -> None:
    cut = relight.Reply({"role": "assistant", "content": "half a sen"}, None, stop)
    with world.start().session("a") as s:
        assert s.run(Scripted(cut), prompt="go") is None
        assert s.status == "halted"
    info = world.start().sessions.get("a")
    assert stop in (info.reason or "")
    with world.restart().session("a") as s:
        model = Scripted("a sentence")
        assert s.run(model, prompt="go") == "a sentence"
        assert [one["content"] for one in s.messages] == ["go", "a sentence"]
    s = world.start().session("died")
    with pytest.raises(KeyboardInterrupt):
        s.run(Scripted(relight.Reply(asks(1), None, stop), KeyboardInterrupt()), prompt="go")
    with world.restart().session("died") as s:
        assert s.run(Scripted("done"), prompt="go") == "done"


def test_calls_of_a_reply_that_was_cut_off_are_not_run_with_half_their_arguments(world: Simulation) -> None:
    ran: list[int] = []
    model = Scripted(relight.Reply(asks(1), None, "length"), asks(2), "done")
    with world.start().session("a") as s:
        assert s.run(model, tools={"t": lambda: ran.append(1)}, prompt="go") == "done"
        first, second = s.calls()
    assert (first.success, second.success, ran) == (False, True, [1])
    assert "cut off" in first.result
    items = [{"type": "function_call", "call_id": "c", "name": "t", "arguments": '{"a', "status": "incomplete"}]
    with world.start().session("b") as s:
        s.run(Scripted(items, "done"), tools={"t": lambda: ran.append(2)}, prompt="go")
    assert ran == [1]


@pytest.mark.parametrize("reported", [True, False], ids=["told", "seen"])
def test_a_paused_turn_goes_on_and_only_for_so_long(world: Simulation, reported: bool) -> None:
    paused: Any = relight.Reply(anthropic(SEARCH, FOUND), None, "pause_turn") if reported else anthropic(SEARCH)
    ends = anthropic({"type": "text", "text": "done"})
    with world.start().session("a") as s:
        s.run(Scripted(paused, paused, ends), prompt="go")
        assert (s.status, len(s.messages)) == ("completed", 4)
    with world.start().session("b") as s:
        model = Scripted(*[paused] * 100)
        s.run(model, prompt="go")
        assert (s.status, model.asked) == ("halted", 20)
    if reported:
        with world.start().session("b") as s:  # the same program again
            assert s.run(Scripted(ends), prompt="go").endswith("done")


# -- prompts ------------------------------------------------------------------------------------------------------


def echo(messages: list[dict[str, Any]]) -> dict[str, Any]:
    return {"role": "assistant", "content": f"to {messages[-1]['content']}"}


def said_in(world: Simulation, name: str) -> list[str]:
    return [one["content"] for one in world.start().history.load(name).messages if one["role"] == "user"]


def test_a_prompt_is_a_new_turn_unless_it_is_the_newest_again(world: Simulation) -> None:
    for prompt in ["hello", "continue", "continue", "yes", "hello", "yes"]:
        with world.restart().session("chat") as s:
            assert s.run(echo, prompt=prompt) == f"to {prompt}"
    assert said_in(world, "chat") == ["hello", "continue", "yes", "hello", "yes"]


def test_a_prompt_with_an_id_is_said_once_an_id_whatever_its_text(world: Simulation) -> None:
    for prompt, number in [("yes", 1), ("yes", 2), ("other words", 2), ("yes", 3), ("yes", 1)]:
        with world.restart().session("chat") as s:
            s.run(echo, prompt=prompt, prompt_id=f"request-{number}")
    assert said_in(world, "chat") == ["yes", "yes", "yes"]
    with world.restart().session("long") as s:
        with pytest.raises(KeyboardInterrupt):
            s.run(Scripted(KeyboardInterrupt()), prompt="go", prompt_id="request-2")
        s.replace([{"role": "user", "content": "a summary"}])
        s.run(echo, prompt="again", prompt_id="request-2")
    assert said_in(world, "long") == ["a summary"]
    with world.restart().session("chat") as s, pytest.raises(relight.errors.UsageError, match="prompt_id"):
        s.run(echo, prompt_id="alone")


def test_another_prompt_is_heard_after_a_failed_turn_and_in_the_middle_of_one(world: Simulation) -> None:
    with pytest.raises(ValueError, match="x"), world.start().session("failed") as s:
        s.run(Scripted(ValueError("x")), prompt="first")
    with world.restart().session("failed") as s:
        assert s.run(echo, prompt="second") == "to second"
    assert said_in(world, "failed") == ["first", "second"]
    s = world.start().session("middle")
    with pytest.raises(KeyboardInterrupt):
        s.run(Scripted(asks(1), KeyboardInterrupt()), tools={"t": _interrupted}, prompt="first")
    with world.restart().session("middle") as s:
        assert s.run(echo, tools={"t": _interrupted}, prompt="second") == "to second"
        roles = [one["role"] for one in s.messages]
    assert roles == ["user", "assistant", "tool", "user", "assistant"], "the result of a call comes before new words"


def _interrupted() -> None:
    raise KeyboardInterrupt


def test_a_program_with_one_prompt_does_not_repeat_it_after_an_operators(world: Simulation) -> None:
    for sent in ("", "also Bob", ""):
        rl = world.restart()
        if sent:
            rl.runs.send("job", sent)
        with rl.session("job") as s:
            s.run(echo, prompt="Tell Ada")
    assert said_in(world, "job") == ["Tell Ada", "also Bob"]
    s = world.start().session("compacted")
    with pytest.raises(KeyboardInterrupt):
        s.run(Scripted(KeyboardInterrupt()), prompt="go")
    s.replace([{"role": "user", "content": "a summary"}])
    with world.restart().session("compacted") as s:
        s.run(echo, prompt="go")
    assert said_in(world, "compacted") == ["a summary"]
