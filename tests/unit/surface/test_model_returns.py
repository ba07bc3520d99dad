"""A model function returns what its provider's SDK gave it: dict, items, object, whole response, stream, or `Reply`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

import relight
from relight.aio import AsyncRelight
from relight.errors import InvalidMessage
from tests.support.simulation import Simulation

TEXT = "Fine."
USE = {"type": "tool_use", "id": "t1", "name": "t", "input": {"a": 1}}
CALL = {"id": "t1", "type": "function", "function": {"name": "t", "arguments": '{"a": 1}'}}
ITEM = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "t1",
    "name": "t",
    "arguments": '{"a": 1}',
    "status": "completed",
}
SAID = {"type": "output_text", "text": TEXT, "annotations": [], "logprobs": []}
TOOL_USE = {"toolUse": {"toolUseId": "t1", "name": "t", "input": {"a": 1}}}


def claude(*content: Any, stop: str = "end_turn") -> dict[str, Any]:
    usage = {"input_tokens": 10, "cache_read_input_tokens": 80, "cache_creation_input_tokens": 5, "output_tokens": 7}
    told = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_sequence": None}
    return {**told, "content": list(content), "stop_reason": stop, "usage": usage}


def completion(message: dict[str, Any], stop: str = "stop") -> dict[str, Any]:
    details = {"cached_tokens": 80, "cache_write_tokens": 5}
    usage = {"prompt_tokens": 95, "completion_tokens": 7, "total_tokens": 102, "prompt_tokens_details": details}
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": stop, "logprobs": None}
    return {"id": "c", "object": "chat.completion", "choices": [choice], "usage": usage}


def response(*output: Any, **told: Any) -> dict[str, Any]:
    details = {"cached_tokens": 80, "cache_write_tokens": 5}
    usage = {"input_tokens": 95, "output_tokens": 7, "total_tokens": 102, "input_tokens_details": details}
    return {"id": "r", "object": "response", "status": "completed", "output": list(output), "usage": usage, **told}


def converse(*content: Any, stop: str = "end_turn") -> dict[str, Any]:
    usage = {
        "inputTokens": 10,
        "outputTokens": 7,
        "totalTokens": 17,
        "cacheReadInputTokens": 80,
        "cacheWriteInputTokens": 5,
    }
    return {"output": {"message": {"role": "assistant", "content": list(content)}}, "stopReason": stop, "usage": usage}


def generated(*parts: Any, stop: str = "STOP") -> dict[str, Any]:
    usage = {"promptTokenCount": 95, "cachedContentTokenCount": 85, "candidatesTokenCount": 4, "thoughtsTokenCount": 3}
    candidate = {"content": {"role": "model", "parts": list(parts)}, "finishReason": stop, "index": 0}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "m"}


MESSAGE = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [SAID]}
ASKS: dict[str, Any] = {
    "anthropic": claude({"type": "text", "text": "", "citations": None}, {**USE, "caller": None}, stop="tool_use"),
    "openai_chat": completion(
        {"content": None, "refusal": None, "annotations": [], "tool_calls": [CALL]}, "tool_calls"
    ),
    "openai_responses": response({"type": "reasoning", "id": "rs_1", "summary": [], "status": None}, ITEM),
    "bedrock": converse({"text": "I look."}, TOOL_USE, stop="tool_use"),
    "gemini": generated({"functionCall": {"name": "t", "args": {"a": 1}}, "thoughtSignature": "c2ln"}),
}
ENDS: dict[str, Any] = {
    "anthropic": claude({"type": "text", "text": TEXT}),
    "openai_chat": completion({"content": TEXT}),
    "openai_responses": response(MESSAGE),
    "bedrock": converse({"text": TEXT}),
    "gemini": generated({"text": TEXT}),
}
KEPT: dict[str, Any] = {
    "anthropic": [{"role": "assistant", "content": [USE]}],
    "openai_chat": [{"role": "assistant", "content": None, "tool_calls": [CALL]}],
    "openai_responses": [{"type": "reasoning", "id": "rs_1", "summary": []}, ITEM],
    "bedrock": [{"role": "assistant", "content": [{"text": "I look."}, TOOL_USE]}],
    "gemini": [
        {"role": "model", "parts": [{"functionCall": {"name": "t", "args": {"a": 1}}, "thoughtSignature": "c2ln"}]}
    ],
}
PROVIDERS = {"bedrock": "bedrock-converse", "gemini": "google-genai"}
THOUGHT = {"type": "thinking", "thinking": "", "signature": ""}
NAMED = {"index": 0, **CALL, "function": {"name": "t", "arguments": ""}}
GEMINI_CALL = {"functionCall": {"name": "t", "args": {"a": 1}}}
every_provider = pytest.mark.parametrize("name", ASKS)


@pytest.fixture
def world() -> Simulation:
    """A store with nothing in it, and a machine on which nothing runs."""
    return Simulation()


class Model:
    """Returns these one after another; an exception is raised."""

    def __init__(self, *replies: Any) -> None:
        self.replies = list(replies)

    def __call__(self, messages: list[dict[str, Any]]) -> Any:
        reply = self.replies.pop(0)
        if isinstance(reply, BaseException):
            raise reply
        return reply


class Dumped:
    """As pydantic objects are dumped."""

    def __init__(self, data: Any) -> None:
        self.data = data

    def model_dump(self, **_: Any) -> Any:
        return self.data


def run(s: Any, model: Any, **options: Any) -> Any:
    return s.run(model, tools={"t": lambda a: f"got {a}"}, prompt="go", **options)


@every_provider
@pytest.mark.parametrize("form", [dict, Dumped])
def test_a_whole_response_is_taken_apart_and_what_is_sent_back_is_a_message_alone(name: str, form: Any) -> None:
    with Simulation().start().session("a", provider=PROVIDERS.get(name)) as s:
        assert run(s, Model(form(ASKS[name]), form(ENDS[name]))) == TEXT
        (call,) = s.calls()
        assert (call.arguments, call.result, call.success) == ({"a": 1}, "got 1", True)
        assert s.messages[1 : 1 + len(KEPT[name])] == KEPT[name]
        usage = s.usage
    cached = 85 if name == "gemini" else 80
    written = 0 if name == "gemini" else 5
    assert (usage.input_tokens, usage.cache_read_tokens) == (20, 2 * cached)
    assert (usage.cache_write_tokens, usage.output_tokens) == (2 * written, 14)


# -- streams ----------------------------------------------------------------------------------------------------------

BEGUN = {"type": "message_start", "message": {**claude(), "usage": {"input_tokens": 10, "output_tokens": 1}}}
CHUNKS: dict[str, list[dict[str, Any]]] = {
    "anthropic": [
        BEGUN,
        {"type": "ping"},
        {"type": "content_block_start", "index": 0, "content_block": THOUGHT},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "sig"}},
        {"type": "content_block_start", "index": 1, "content_block": {**USE, "input": {}}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": '{"a"'}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": ": 1}"}},
        {"type": "content_block_stop", "index": 1},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 7}},
        {"type": "message_stop"},
    ],
    "openai_chat": [
        {"choices": [{"index": 0, "delta": {"role": "assistant", "content": None}, "finish_reason": None}]},
        {"choices": [{"index": 0, "delta": {"tool_calls": [NAMED]}}]},
        {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "function": {"arguments": '{"a": 1}'}}]}}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
        {"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 7}},
    ],
    "openai_responses": [
        {"type": "response.created", "response": {"status": "in_progress", "output": []}},
        {"type": "response.output_item.done", "output_index": 0, "item": ITEM},
        {"type": "response.completed", "response": {**response(), "usage": {"input_tokens": 10, "output_tokens": 7}}},
    ],
    "bedrock": [
        {"messageStart": {"role": "assistant"}},
        {"contentBlockDelta": {"delta": {"text": "I "}, "contentBlockIndex": 0}},
        {"contentBlockDelta": {"delta": {"text": "look."}, "contentBlockIndex": 0}},
        {"contentBlockStart": {"start": {"toolUse": {"toolUseId": "t1", "name": "t"}}, "contentBlockIndex": 1}},
        {"contentBlockDelta": {"delta": {"toolUse": {"input": '{"a": 1}'}}, "contentBlockIndex": 1}},
        {"messageStop": {"stopReason": "tool_use"}},
        {"metadata": {"usage": {"inputTokens": 10, "outputTokens": 7, "totalTokens": 17}}},
    ],
    "gemini": [
        {"candidates": [{"content": {"role": "model", "parts": [{"text": "I "}]}}]},
        {"candidates": [{"content": {"role": "model", "parts": [{"text": "look."}]}}]},
        {
            "candidates": [{"content": {"parts": [GEMINI_CALL]}, "finishReason": "STOP"}],
            "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 7},
        },
    ],
}  # fmt: skip


@every_provider
@pytest.mark.parametrize("form", [dict, Dumped])
def test_a_stream_is_read_to_its_end_and_is_one_reply(name: str, form: Any) -> None:
    stream: Any = iter([form(event) for event in CHUNKS[name]])
    with Simulation().start().session("a", provider=PROVIDERS.get(name)) as s:
        assert run(s, Model({"stream": stream} if name == "bedrock" else stream, ENDS[name])) == TEXT
        (call,) = s.calls()
        assert (call.arguments, call.result) == ({"a": 1}, "got 1")
        assert (s.usage.input_tokens, s.usage.output_tokens) == (20, 14)
        texts = [part.get("text") for part in s.messages[1].get("content") or s.messages[1].get("parts") or ()]
        assert texts[:1] == ["I look."] or name not in PROVIDERS


@every_provider
@pytest.mark.parametrize("form", [dict, Dumped])
def test_the_events_of_a_stream_as_a_list_are_one_reply(name: str, form: Any) -> None:
    events = [form(event) for event in CHUNKS[name]]
    with Simulation().start().session("a", provider=PROVIDERS.get(name)) as s:
        assert run(s, Model(events, ENDS[name])) == TEXT
        (call,) = s.calls()
        assert (call.arguments, call.result, s.usage.output_tokens) == ({"a": 1}, "got 1", 14)
    with Simulation().start().session("a", provider=PROVIDERS.get(name)) as s:
        with pytest.raises(Exception, match=r"ended before|no reply"):
            s.run(Model(events[:2]), prompt="go", retry=relight.Retry(attempts=1))
        assert len(s.messages) == 1, "half a reply is not committed as something else"


def test_the_content_of_an_anthropic_message_is_its_reply(world: Simulation) -> None:
    for number, content in enumerate([[USE], [Dumped(USE)], relight.Reply([USE], claude(USE)["usage"], "tool_use")]):
        with world.start().session(f"a{number}") as s:
            assert run(s, Model(content, [{"type": "text", "text": TEXT}])) == TEXT
            assert s.messages[1] == {"role": "assistant", "content": [USE]}
            assert [one.result for one in s.calls()] == ["got 1"]
    with pytest.raises(InvalidMessage, match="Chat"), world.start().session("other") as s:
        s.append([{"role": "user", "content": "go"}, completion({"content": "x"})["choices"][0]["message"]])
        s.append({"role": "assistant", "content": None, "tool_calls": [CALL]})
        s.run(Model([USE]), tools={"t": lambda a: "r"}, prompt="on")


@every_provider
def test_a_reply_with_two_calls_of_one_id_is_refused_because_one_would_never_run(name: str) -> None:
    twice: dict[str, Any] = {
        "anthropic": claude(USE, USE, stop="tool_use"),
        "openai_chat": completion({"content": None, "tool_calls": [CALL, CALL]}),
        "openai_responses": response(ITEM, {**ITEM, "id": "fc_2"}),
        "bedrock": converse(TOOL_USE, TOOL_USE, stop="tool_use"),
    }
    if name not in twice:
        return  # Gemini's calls need no ids
    ran: list[int] = []
    with Simulation().start().session("a", provider=PROVIDERS.get(name)) as s:
        with pytest.raises(InvalidMessage, match="two calls with the id 't1'"):
            s.run(Model(twice[name]), tools={"t": ran.append}, prompt="go")
        assert (ran, len(s.messages)) == ([], 1)


def test_a_closed_stream_is_told_to_its_author(world: Simulation) -> None:
    class StreamClosed(Exception):
        """as httpx names it"""

    def model(messages: Any) -> Any:
        raise StreamClosed("the stream has been closed")

    with pytest.raises(StreamClosed) as raised, world.start().session("a") as s:
        run(s, model)
    assert any("`with`" in note for note in raised.value.__notes__)


@every_provider
def test_a_stream_that_breaks_off_is_asked_for_again_and_nothing_of_it_is_kept(name: str) -> None:
    for end in range(1, len(CHUNKS[name])):
        half = CHUNKS[name][:end]
        if any("finish_reason': 'tool" in str(one) or "messageStop" in one for one in half):
            continue  # whole, without its usage
        with Simulation().start().session("a", provider=PROVIDERS.get(name)) as s:
            assert run(s, Model(iter(half), ENDS[name])) == TEXT
            assert (len(s.messages), s.calls()) == (2, [])


@pytest.mark.parametrize("name", ["anthropic", "openai_chat"])
def test_the_final_message_of_a_stream_that_broke_off_is_asked_for_again(world: Simulation, name: str) -> None:
    half: dict[str, Any] = claude({"type": "text", "text": "Ha"})
    half["stop_reason"] = None
    if name == "openai_chat":
        half = completion({"content": "Ha"})
        half["choices"][0]["finish_reason"] = None
    with world.start().session("a") as s:
        assert run(s, Model(half, ENDS[name])) == TEXT
        assert len(s.messages) == 2
    with pytest.raises(ConnectionError, match="before the reply was whole"), world.start().session("b") as s:
        s.append(Dumped(half))


def test_an_error_inside_a_stream_is_retried_if_it_passes_and_raised_if_it_does_not(world: Simulation) -> None:
    overloaded = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    invalid = {"type": "error", "error": {"type": "invalid_request_error", "message": "too long"}}
    failed = response(status="failed", error={"code": "server_error", "message": "sorry"})
    ended = [{"type": "response.failed", "response": failed}]
    throttled = [{"messageStart": {}}, {"throttlingException": {"message": "slow down"}}]
    streams: list[list[Any]] = [[BEGUN, overloaded], ended, throttled]
    for number, events in enumerate(streams):
        with world.start().session(f"passes{number}") as s:
            assert run(s, Model(iter(events), {"role": "assistant", "content": TEXT})) == TEXT
    with pytest.raises(InvalidMessage, match=r"invalid_request_error.*too long"), world.start().session("b") as s:
        run(s, Model(iter([BEGUN, invalid])))


def test_an_async_stream_is_read_on_the_callers_loop_and_refused_without_one(world: Simulation) -> None:
    async def events() -> AsyncIterator[Any]:
        for event in CHUNKS["anthropic"]:
            await asyncio.sleep(0)
            yield event

    model = Model(events(), ENDS["anthropic"])

    async def main() -> Any:
        async with await AsyncRelight(world.start()).session("a") as s:
            return await s.run(model, tools={"t": lambda a: "r"}, prompt="go")

    assert asyncio.run(main()) == TEXT
    with pytest.raises(InvalidMessage, match=r"relight\.aio"), world.start().session("b") as s:
        run(s, Model(events()))


def test_a_model_that_yields_its_events_is_a_stream(world: Simulation) -> None:
    shown: list[str] = []

    def model(messages: list[dict[str, Any]]) -> Iterator[Any]:
        for event in CHUNKS["anthropic"] if len(messages) == 1 else [BEGUN, *_said(TEXT)]:
            shown.append(event["type"])
            yield event

    with world.start().session("a") as s:
        assert run(s, model) == TEXT
    assert shown.count("message_stop") == 2


def _said(text: str) -> list[dict[str, Any]]:
    return [
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 7}},
        {"type": "message_stop"},
    ]


# -- ends -------------------------------------------------------------------------------------------------------------

NO = "I cannot help with that."
REFUSALS: dict[str, Any] = {
    "anthropic": claude({"type": "text", "text": NO}, stop="refusal"),
    "anthropic, explained": {**claude(stop="refusal"), "stop_details": {"type": "refusal", "explanation": NO}},
    "openai_chat": completion({"content": None, "refusal": NO}),
    "openai_chat, filtered": completion({"content": NO}, "content_filter"),
    "openai_responses": response({**MESSAGE, "content": [{"type": "refusal", "refusal": NO}]}),
    "bedrock": converse({"text": NO}, stop="guardrail_intervened"),
    "gemini": generated({"text": NO}, stop="SAFETY"),
}


@pytest.mark.parametrize("kind", REFUSALS)
def test_a_refusal_halts_with_what_the_model_said(world: Simulation, kind: str) -> None:
    with world.start().session("a") as s:
        assert run(s, Model(REFUSALS[kind])) is None
        assert s.status == "halted"
    reason = world.start().sessions.get("a").reason or ""
    assert "refused" in reason
    assert NO in reason


def test_a_blocked_prompt_of_gemini_is_a_refusal(world: Simulation) -> None:
    with world.start().session("a") as s:
        assert run(s, Model({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "candidates": []})) is None
    assert "PROHIBITED_CONTENT" in (world.start().sessions.get("a").reason or "")


CUT: dict[str, Any] = {
    "anthropic": claude({**USE, "input": {}}, stop="max_tokens"),
    "anthropic, full": claude({"type": "text", "text": "half"}, stop="model_context_window_exceeded"),
    "openai_chat": completion({"content": "half"}, "length"),
    "openai_responses": response(MESSAGE, status="incomplete", incomplete_details={"reason": "max_output_tokens"}),
    "bedrock": converse({"text": "half"}, stop="max_tokens"),
    "gemini": generated({"text": "half"}, stop="MAX_TOKENS"),
    "gemini, broken": generated(stop="MALFORMED_FUNCTION_CALL"),
}


@pytest.mark.parametrize("kind", CUT)
def test_a_truncated_reply_is_not_a_finished_one_and_its_calls_are_not_run(world: Simulation, kind: str) -> None:
    with world.start().session("a") as s:
        assert run(s, Model(CUT[kind], CUT[kind]), max_turns=1) is None
        assert s.status == "halted"
        assert all(not call.success for call in s.calls())


@pytest.mark.parametrize("kind", [*CUT, *REFUSALS])
def test_started_again_the_model_is_asked_without_a_reply_that_is_not_usable(kind: str) -> None:
    """Newer models refuse a conversation that ends with a reply, and its text would be part of the result."""
    name, reply = kind.split(",", maxsplit=1)[0], {**CUT, **REFUSALS}[kind]
    world, model = Simulation(), Model(reply, ENDS[name], ENDS[name])
    with world.start().session("a", provider=PROVIDERS.get(name)) as s:
        s.state["before"] = 0
        run(s, model, max_turns=1)
    with world.restart().session("a", provider=PROVIDERS.get(name)) as s:
        s.state["saved"] = 1
        s.checkpoint()
        s.state["unsaved"] = 2
        assert run(s, model) == TEXT
        if not s.calls():  # else they were answered, and the reply is followed by that
            assert len(s.messages) == 2
    assert world.start().history.load("a").state == {"before": 0, "saved": 1, "unsaved": 2}


def test_a_fork_of_a_reply_that_was_cut_off_goes_on_with_what_it_has(world: Simulation) -> None:
    rl = world.start()
    with rl.session("a") as s:
        run(s, Model(CUT["openai_chat"]))
    cut = rl.history.load("a").seq
    rl.history.fork(f"a@{cut}", name="b")
    with rl.session("b") as s:
        assert TEXT in str(run(s, Model(ENDS["openai_chat"])))


def test_a_pause_before_a_cut_stays(world: Simulation) -> None:
    search = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}}
    with world.start().session("a") as s:
        assert run(s, Model(claude(search, stop="pause_turn"), CUT["anthropic, full"])) is None
    with world.restart().session("a") as s:
        assert run(s, Model(ENDS["anthropic"])) == TEXT
        assert [one["role"] for one in s.messages] == ["user", "assistant", "assistant"]


def test_calls_of_a_truncated_reply_are_answered_as_not_run_and_the_model_goes_on() -> None:
    cut: dict[str, Any] = {
        "anthropic": claude({**USE, "input": {}}, stop="max_tokens"),
        "openai_chat": completion({"content": None, "tool_calls": [CALL]}, "length"),
        "openai_responses": response(ITEM, status="incomplete", incomplete_details={"reason": "max_output_tokens"}),
        "bedrock": converse(TOOL_USE, stop="max_tokens"),
    }
    for name, reply in cut.items():
        ran: list[int] = []
        with Simulation().start().session("a", provider=PROVIDERS.get(name)) as s:
            assert s.run(Model(reply, ENDS[name]), tools={"t": ran.append}, prompt="go") == TEXT, name
            (call,) = s.calls()
            assert (ran, s.status, "cut off" in str(call.result)) == ([], "completed", True), name


def test_a_paused_turn_goes_on_and_sends_back_what_it_had(world: Simulation) -> None:
    search = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}}
    with world.start().session("a") as s:
        assert run(s, Model(claude(search, stop="pause_turn"), ENDS["anthropic"])) == TEXT
        assert s.messages[1] == {"role": "assistant", "content": [search]}


def test_a_sentence_that_cites_its_sources_is_one_and_what_the_provider_did_is_no_part_of_the_result() -> None:
    found = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}
    search = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
    cited = [{"type": "text", "text": "Ada was born "}, {"type": "text", "text": "in 1815", "citations": []}]
    begun = {"type": "text", "text": "I look."}
    items = [{"type": kind, "id": "x"} for kind in ("web_search_call", "compaction", "code_interpreter_call")]
    told = {"type": "output_text", "text": "Ada was born in 1815", "annotations": []}
    blocks = [{"text": "Ada was born "}, {"citationsContent": {"content": [{"text": "in 1815"}], "citations": []}}]
    parts = [{"executableCode": {"code": "1"}}, {"text": "Ada was "}, {"text": "born in 1815"}]
    replies = {
        "anthropic": claude(begun, search, found, *cited),
        "openai_responses": response(*items, {**MESSAGE, "content": [told]}),
        "bedrock": converse(*blocks),
        "gemini": generated(*parts),
    }
    for name, reply in replies.items():
        with Simulation().start().session("a", provider=PROVIDERS.get(name)) as s:
            before = "I look.\n" if name == "anthropic" else ""
            assert run(s, Model(reply)) == f"{before}Ada was born in 1815", name


@every_provider
def test_an_empty_reply_completes_and_leaves_a_conversation_that_the_provider_accepts(name: str) -> None:
    empty: dict[str, Any] = {
        "anthropic": claude(),
        "openai_chat": completion({"content": None}),
        "openai_responses": response({**MESSAGE, "content": []}),
        "bedrock": converse(),
        "gemini": generated(),
    }
    with Simulation().start().session("a", provider=PROVIDERS.get(name)) as s:
        assert run(s, Model(empty[name])) is None
        assert s.status == "completed"
        content = s.messages[1].get("content", s.messages[1].get("parts"))
        assert content or name.startswith("openai")
        assert content is not None


def test_a_response_without_items_is_an_empty_reply(world: Simulation) -> None:
    with world.start().session("a", provider="openai-responses") as s:
        assert run(s, Model(response())) is None
        assert (s.status, [item.get("role") for item in s.messages]) == ("completed", ["user", "assistant"])
        cut = response(status="incomplete", incomplete_details={"reason": "max_output_tokens"})
        assert s.run(Model(cut), prompt="again") is None
        assert s.status == "halted"
        assert s.usage.output_tokens == 14


# -- what is none -----------------------------------------------------------------------------------------------------


def test_a_wrong_usage_is_refused_by_name(world: Simulation) -> None:
    for wrong, told in (({"bogus": 5}, "bogus"), ({"input_tokens": 5, "cost": "0.3"}, "cost")):
        with pytest.raises(relight.errors.UsageError, match=told), world.start().session(told) as s:
            run(s, Model(relight.Reply({"role": "assistant", "content": TEXT}, wrong)))


def test_gemini_calls_without_ids_are_answered_by_name_and_position(world: Simulation) -> None:
    parts = [{"functionCall": {"name": name, "args": {"a": number}}} for number, name in enumerate("ttut")]
    with world.start().session("a", provider="google-genai") as s:
        tools = {"t": lambda a: f"t{a}", "u": lambda a: f"u{a}"}
        model = Model(generated(*parts), ENDS["gemini"])
        assert s.run(model, tools=tools, prompt="go") == TEXT
        assert s.messages[0] == {"role": "user", "parts": [{"text": "go"}]}
        told = [part["functionResponse"] for part in s.messages[2]["parts"]]
    assert [(one["name"], one["response"]["output"]) for one in told] == [
        ("t", "t0"),
        ("t", "t1"),
        ("u", "u2"),
        ("t", "t3"),
    ]
    assert all("id" not in one for one in told)


# -- by hand ----------------------------------------------------------------------------------------------------------


@every_provider
def test_append_takes_what_the_sdk_returned_with_its_usage(name: str) -> None:
    with Simulation().start().session("a", provider=PROVIDERS.get(name)) as s:
        s.prompt("go")
        s.append(Dumped(ASKS[name]))
        assert s.messages[1:] == KEPT[name]
        assert s.usage.output_tokens == 7
        s.run_tool(s.pending_calls()[0], {"t": lambda a: "r"})
        s.append(Dumped(CUT.get(f"{name}, full", CUT[name])))
        assert s.run(Model()) is None
        assert s.status == "halted"


def test_append_takes_blocks_and_items_of_an_sdk(world: Simulation) -> None:
    with world.start().session("a") as s:
        s.append({"role": "assistant", "content": [Dumped({"type": "text", "text": TEXT})]})
        assert s.messages == [{"role": "assistant", "content": [{"type": "text", "text": TEXT}]}]
    with world.start().session("b") as s:
        s.append([Dumped(MESSAGE), Dumped({**ITEM, "parsed_arguments": {"a": 1}})], usage=Dumped({"input_tokens": 5}))
        assert (s.messages, s.usage.input_tokens) == ([MESSAGE, ITEM], 5)
    with pytest.raises(relight.errors.UsageError, match="must be a dict"), world.start().session("c") as s:
        s.append(object())  # type: ignore[arg-type]


def test_a_turn_by_hand_takes_a_stream_in_both_forms(world: Simulation) -> None:
    streams = [CHUNKS["anthropic"], [BEGUN, *_said(TEXT)]]
    tools = {"t": lambda a: "r"}
    with world.start().session("a") as s:
        for turn in s.turns(tools, prompt="go"):
            turn.reply(iter(streams[turn.number - 1]))
        assert s.result == TEXT

    async def later(events: list[Any]) -> AsyncIterator[Any]:
        for event in events:
            yield event

    async def main() -> Any:
        async with await AsyncRelight(world.start()).session("b") as s:
            async for turn in s.turns(tools, prompt="go"):
                await turn.reply(later(streams[turn.number - 1]))
            return s.result

    assert asyncio.run(main()) == TEXT


def test_tokens_that_are_cached_for_an_hour_cost_what_they_cost(world: Simulation) -> None:
    costs = []
    for kept in (0, 1_000_000):
        with world.start().session(f"a{kept}", model="claude-sonnet-5") as s:
            written = {"cache_creation_input_tokens": 1_000_000, "input_tokens": 0, "output_tokens": 0}
            usage = {**written, "cache_creation": {"ephemeral_1h_input_tokens": kept}}
            s.append({"role": "assistant", "content": TEXT}, usage=usage)
            costs.append(s.usage.cost or 0.0)
    assert 0.0 < costs[0] < costs[1]
