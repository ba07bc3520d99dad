"""OpenAI's own client, both APIs, against a server that refuses what the real one would."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import openai
import pytest

import relight
from tests.integration.frameworks.sdks.conftest import SCHEMA, Clients, converse, ways
from tests.support.fake_model import FakeModel
from tests.support.simulation import Simulation

Messages = list[dict[str, Any]]
FUNCTION = {"name": "look", "description": "Look at a city.", "parameters": SCHEMA}
CHAT: dict[str, Any] = {"model": "gpt-test", "tools": [{"type": "function", "function": FUNCTION}]}
TOLD = {"stream_options": {"include_usage": True}}
STRICT = {**SCHEMA, "required": ["city"], "additionalProperties": False}
RESPONSES: dict[str, Any] = {
    "model": "gpt-test",
    "store": False,
    "include": ["reasoning.encrypted_content"],
    "tools": [{"type": "function", **FUNCTION, "parameters": STRICT, "strict": True}],
}


class _OpenAI(Clients):
    _name = "OpenAI"

    def __init__(self, url: str, is_async: bool) -> None:
        super().__init__(openai, f"{url}/v1", "sk-fake", is_async)


class ChatWays(_OpenAI):
    """Model functions for Chat Completions."""

    def create(self, messages: Messages) -> Any:
        return self._client.chat.completions.create(**CHAT, messages=messages)

    def dumped(self, messages: Messages) -> Any:
        return self.create(messages).model_dump()

    def message(self, messages: Messages) -> Any:
        reply = self.create(messages)
        return relight.Reply(reply.choices[0].message, reply.usage, reply.choices[0].finish_reason)

    def dumped_message(self, messages: Messages) -> Any:
        reply = self.create(messages)
        return relight.Reply(reply.choices[0].message.model_dump(), reply.usage.model_dump())

    def parsed(self, messages: Messages) -> Any:
        tools = [{"type": "function", "function": {**FUNCTION, "parameters": STRICT, "strict": True}}]
        return self._client.chat.completions.parse(model="gpt-test", tools=tools, messages=messages)

    def raw_response(self, messages: Messages) -> Any:
        return self._client.chat.completions.with_raw_response.create(**CHAT, messages=messages)

    def raw_stream(self, messages: Messages) -> Any:
        return self._client.chat.completions.create(**CHAT, **TOLD, messages=messages, stream=True)

    def manager(self, messages: Messages) -> Any:
        return self._client.chat.completions.stream(**CHAT, **TOLD, messages=messages)

    def generator(self, messages: Messages) -> Iterator[Any]:
        yield from self.raw_stream(messages)

    async def async_create(self, messages: Messages) -> Any:
        return await self._client.chat.completions.create(**CHAT, messages=messages)

    async def async_raw_stream(self, messages: Messages) -> Any:
        return await self._client.chat.completions.create(**CHAT, **TOLD, messages=messages, stream=True)

    async def async_generator(self, messages: Messages) -> AsyncIterator[Any]:
        async with self._client.chat.completions.stream(**CHAT, **TOLD, messages=messages) as stream:
            async for event in stream:
                yield event


class ResponsesWays(_OpenAI):
    """Model functions for the Responses API."""

    def create(self, messages: Messages) -> Any:
        return self._client.responses.create(**RESPONSES, input=messages)

    def dumped(self, messages: Messages) -> Any:
        return self.create(messages).model_dump()

    def output(self, messages: Messages) -> Any:
        reply = self.create(messages)
        return relight.Reply(reply.output, reply.usage, reply.status)

    def dumped_output(self, messages: Messages) -> Any:
        reply = self.create(messages)
        return relight.Reply([item.model_dump() for item in reply.output], reply.usage.model_dump())

    def parsed(self, messages: Messages) -> Any:
        return self._client.responses.parse(**RESPONSES, input=messages)

    def raw_stream(self, messages: Messages) -> Any:
        return self._client.responses.create(**RESPONSES, input=messages, stream=True)

    def manager(self, messages: Messages) -> Any:
        return self._client.responses.stream(**RESPONSES, input=messages)

    async def async_create(self, messages: Messages) -> Any:
        return await self._client.responses.create(**RESPONSES, input=messages)

    async def async_raw_response(self, messages: Messages) -> Any:
        return await self._client.responses.with_raw_response.create(**RESPONSES, input=messages)

    async def async_manager(self, messages: Messages) -> Any:
        return self._client.responses.stream(**RESPONSES, input=messages)

    async def async_raw_stream(self, messages: Messages) -> Any:
        return await self._client.responses.create(**RESPONSES, input=messages, stream=True)


WAYS = [(kind, way) for kind in (ChatWays, ResponsesWays) for way in ways(kind)]


@pytest.mark.parametrize(("kind", "way"), WAYS)
def test_a_reply_is_handed_over_as_it_comes(kind: type[_OpenAI], way: str, server: FakeModel) -> None:
    converse(kind, way, server)


TRANSIENT: dict[str, dict[str, Any]] = {
    "unavailable": {"status": 503},
    "limited": {"status": 429, "headers": {"retry-after-ms": "3000"}},
    "broken": {"text": "half a sen", "reset": "mid"},
    "cut off": {"text": "half a sentence that ends too early", "cut": "mid"},
    "failed in the stream": {"text": "half", "error": {"type": "server_error", "code": "server_error"}},
}


@pytest.mark.parametrize("way", ["create", "raw_stream", "manager"])
@pytest.mark.parametrize("api", [ChatWays, ResponsesWays])
@pytest.mark.parametrize("kind", TRANSIENT)
def test_what_its_client_raises_for_trouble_that_passes_is_asked_again(kind: str, api: Any, way: str) -> None:
    world = Simulation()
    script = [[TRANSIENT[kind], {"text": "Fine."}]]
    with FakeModel(script, exact=True) as server, api(server.url, False) as clients, world.start().session("a") as s:
        before = world.time.now_us()
        assert s.run(getattr(clients, way), prompt="go") == "Fine."
        waited = (world.time.now_us() - before) / 1e6
        assert len(server.requests()) == 2
    assert (2.9 < waited < 3.1) if kind == "limited" else (0.4 < waited < 1.1)


@pytest.mark.parametrize("api", [ChatWays, ResponsesWays])
@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422, 429])
def test_a_wrong_request_and_a_used_up_quota_are_raised_at_once(status: int, api: Any) -> None:
    body = {"error": {"message": "You exceeded your quota", "type": "insufficient_quota", "code": "insufficient_quota"}}
    turn: dict[str, Any] = {"status": status, "body": body} if status == 429 else {"status": status}
    with (
        FakeModel([turn], exact=True) as server,
        api(server.url, False) as clients,
        pytest.raises(openai.APIStatusError),
        Simulation().start().session("a") as s,
    ):
        s.run(clients.create, prompt="go")
    assert len(server.requests()) == 1


@pytest.mark.parametrize("way", ["create", "dumped", "raw_stream", "manager"])
@pytest.mark.parametrize("api", [ChatWays, ResponsesWays])
@pytest.mark.parametrize(
    ("turn", "told"),
    [
        ({"text": "half", "stop": "length"}, "cut off"),
        ({"refusal": "No."}, "refused"),
        ({"text": "x", "stop": "content_filter"}, "refused"),
    ],
)
def test_why_the_model_stopped_decides_how_the_session_ends(turn: Any, told: str, api: Any, way: str) -> None:
    world = Simulation()
    if api is ResponsesWays and turn.get("stop") == "length":
        turn = {**turn, "stop": "max_output_tokens"}
    with FakeModel([turn, {"text": "Fine."}], exact=True) as server, api(server.url, False) as clients:
        with world.start().session("a") as s:
            assert s.run(getattr(clients, way), prompt="go") is None
        info = world.start().sessions.get("a")
        assert (info.status, told in (info.reason or "")) == ("halted", True)
        with world.start().session("a") as s:
            assert s.run(getattr(clients, way), prompt="Another question") == "Fine."
    assert [request.problem for request in server.requests() if request.problem] == []
