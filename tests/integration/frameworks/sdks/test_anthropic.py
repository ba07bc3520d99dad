"""Anthropic's own client against a server that refuses what the real one would."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any

import anthropic
import pytest

import relight
from tests.integration.frameworks.sdks.conftest import SCHEMA, Clients, converse, ways
from tests.support.fake_model import FakeModel
from tests.support.simulation import Simulation

Messages = list[dict[str, Any]]
ASKED: dict[str, Any] = {
    "model": "claude-test",
    "max_tokens": 1024,
    "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
    "tools": [{"name": "look", "description": "Look at a city.", "input_schema": SCHEMA}],
}


class Ways(Clients):
    """Each is a model function that a reader of Anthropic's documentation would write."""

    _name = "Anthropic"

    def __init__(self, url: str, is_async: bool) -> None:
        super().__init__(anthropic, url, "sk-ant-fake", is_async)

    def create(self, messages: Messages) -> Any:
        return self._client.messages.create(**ASKED, messages=messages)

    def dumped(self, messages: Messages) -> Any:
        return self.create(messages).model_dump()

    def as_json(self, messages: Messages) -> Any:
        return self.create(messages).to_dict()

    def content(self, messages: Messages) -> Any:
        reply = self.create(messages)
        return relight.Reply({"role": "assistant", "content": reply.content}, reply.usage)

    def param(self, messages: Messages) -> Any:
        reply = self.create(messages)
        return relight.Reply(reply.to_param(), reply.usage, reply.stop_reason)

    def dumped_blocks(self, messages: Messages) -> Any:
        reply = self.create(messages)
        blocks = [block.model_dump() for block in reply.content]
        return relight.Reply({"role": "assistant", "content": blocks}, reply.usage.model_dump(), reply.stop_reason)

    def parsed(self, messages: Messages) -> Any:
        return self._client.messages.parse(**ASKED, messages=messages)

    def raw_response(self, messages: Messages) -> Any:
        return self._client.messages.with_raw_response.create(**ASKED, messages=messages)

    def final_message(self, messages: Messages) -> Any:
        with self._client.messages.stream(**ASKED, messages=messages) as stream:
            for _ in stream.text_stream:
                pass
            return stream.get_final_message()

    def manager(self, messages: Messages) -> Any:
        return self._client.messages.stream(**ASKED, messages=messages)

    def raw_stream(self, messages: Messages) -> Any:
        return self._client.messages.create(**ASKED, messages=messages, stream=True)

    def generator(self, messages: Messages) -> Iterator[Any]:
        with self._client.messages.stream(**ASKED, messages=messages) as stream:
            yield from stream

    async def async_create(self, messages: Messages) -> Any:
        return await self._client.messages.create(**ASKED, messages=messages)

    async def async_raw_response(self, messages: Messages) -> Any:
        return await self._client.messages.with_raw_response.create(**ASKED, messages=messages)

    async def async_manager(self, messages: Messages) -> Any:
        return self._client.messages.stream(**ASKED, messages=messages)

    async def async_raw_stream(self, messages: Messages) -> Any:
        return await self._client.messages.create(**ASKED, messages=messages, stream=True)

    async def async_generator(self, messages: Messages) -> AsyncIterator[Any]:
        async with self._client.messages.stream(**ASKED, messages=messages) as stream:
            async for event in stream:
                yield event


@pytest.mark.parametrize("way", ways(Ways))
def test_a_reply_is_handed_over_as_it_comes(way: str, server: FakeModel) -> None:
    converse(Ways, way, server)


def test_marks_of_the_cache_are_put_on_a_copy_and_are_never_a_fifth(server: FakeModel) -> None:
    def model(clients: Any, messages: Messages) -> Any:
        last = messages[-1]
        if isinstance(last["content"], str):
            last["content"] = [{"type": "text", "text": last["content"]}]
        last["content"][-1]["cache_control"] = {"type": "ephemeral"}
        return clients.create(messages)

    with Ways(server.url, False) as clients, relight.open("memory:") as rl, rl.session("a") as s:
        look = relight.tool(effect="pure")(lambda city: f"{city} is fine")
        for prompt in ("Look", "Thanks", "And again", "And again?", "Once more", "Bye"):
            s.run(partial(model, clients), tools={"look": look}, prompt=prompt)
        assert s.status == "completed"
    assert [request.problem for request in server.requests() if request.problem] == []
    assert max(str(request.body).count("cache_control") for request in server.requests()) == 2


TRANSIENT: dict[str, dict[str, Any]] = {
    "overloaded": {"status": 529},
    "limited": {"status": 429, "headers": {"retry-after": "3"}},
    "broken": {"text": "half a sen", "reset": "mid"},
    "cut off": {"text": "half a sentence that ends too early", "cut": "mid"},
    "overloaded in the stream": {"text": "half", "error": {"type": "overloaded_error", "message": "Overloaded"}},
    "refused connection": {"reset": "before"},
}


@pytest.mark.parametrize("way", ["create", "raw_stream", "manager"])
@pytest.mark.parametrize("kind", TRANSIENT)
def test_what_its_client_raises_for_trouble_that_passes_is_asked_again(kind: str, way: str) -> None:
    world = Simulation()
    script = [[TRANSIENT[kind], {"text": "Fine."}]]
    with FakeModel(script, exact=True) as server, Ways(server.url, False) as clients, world.start().session("a") as s:
        before = world.time.now_us()
        assert s.run(getattr(clients, way), prompt="go") == "Fine."
        waited = (world.time.now_us() - before) / 1e6
        assert len(server.requests()) == 2
    assert (2.9 < waited < 3.1) if kind == "limited" else (0.4 < waited < 1.1)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
def test_what_its_client_raises_for_a_wrong_request_is_raised_at_once(status: int) -> None:
    with (
        FakeModel([{"status": status}], exact=True) as server,
        Ways(server.url, False) as clients,
        pytest.raises(anthropic.APIStatusError),
        Simulation().start().session("a") as s,
    ):
        s.run(clients.create, prompt="go")
    assert len(server.requests()) == 1


@pytest.mark.parametrize("way", ["create", "dumped", "raw_stream", "manager"])
@pytest.mark.parametrize(
    ("stop", "told"),
    [
        ("max_tokens", "cut off"),
        ("model_context_window_exceeded", "cut off"),
        ("refusal", "refused"),
        ("pause_turn", ""),
    ],
)
def test_why_the_model_stopped_decides_how_the_session_ends(stop: str, told: str, way: str) -> None:
    world = Simulation()
    script = [{"text": "half", "stop": stop}, {"text": "Fine."}]
    with FakeModel(script, exact=True) as server, Ways(server.url, False) as clients:
        with world.start().session("a") as s:
            result = s.run(getattr(clients, way), prompt="go")
        info = world.start().sessions.get("a")
        assert (info.status, told in (info.reason or "")) == ("halted" if told else "completed", True)
        assert result == (None if told else "half\nFine.")
        with world.start().session("a") as s:
            s.run(getattr(clients, way), prompt="Another question")
    assert [request.problem for request in server.requests() if request.problem] == []
