"""Google's own client of Gemini, against a server that refuses what the real one would."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from google import genai
from google.genai import errors, types

import relight
from tests.integration.frameworks.sdks.conftest import SCHEMA, Clients, converse, ways
from tests.support.fake_model import FakeModel
from tests.support.simulation import Simulation

Messages = list[dict[str, Any]]
MODEL = "gemini-test"
DECLARED: dict[str, Any] = {"name": "look", "description": "Look at a city.", "parameters": SCHEMA}
CONFIG = types.GenerateContentConfig(
    tools=[types.Tool(function_declarations=[types.FunctionDeclaration(**DECLARED)])],
    automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
)


class GeminiWays(Clients):
    """Model functions for `generateContent`."""

    _provider = "google-genai"
    _written = 0

    def __init__(self, url: str, is_async: bool) -> None:
        plain: dict[str, Any] = {"verify": False}  # no context for TLS, which takes long to load
        options = types.HttpOptions(base_url=url, client_args=plain, async_client_args=plain)
        self._client = genai.Client(api_key="fake-key", http_options=options)
        self._models: Any = self._client.models
        self._later: Any = self._client.aio.models

    async def __aexit__(self, *_: object) -> None:
        await self._client.aio.aclose()

    def create(self, messages: Messages) -> Any:
        return self._models.generate_content(model=MODEL, contents=messages, config=CONFIG)

    def dumped(self, messages: Messages) -> Any:
        return self.create(messages).model_dump()

    def dumped_as_json(self, messages: Messages) -> Any:
        return self.create(messages).model_dump(mode="json", by_alias=True, exclude_none=True)

    def content(self, messages: Messages) -> Any:
        reply = self.create(messages)
        return relight.Reply(reply.candidates[0].content, reply.usage_metadata, reply.candidates[0].finish_reason)

    def dumped_content(self, messages: Messages) -> Any:
        reply = self.create(messages)
        content = reply.candidates[0].content.model_dump(exclude_none=True)
        return relight.Reply(content, reply.usage_metadata.model_dump(exclude_none=True))

    def raw_stream(self, messages: Messages) -> Any:
        return self._models.generate_content_stream(model=MODEL, contents=messages, config=CONFIG)

    def generator(self, messages: Messages) -> Iterator[Any]:
        yield from self.raw_stream(messages)

    async def async_create(self, messages: Messages) -> Any:
        return await self._later.generate_content(model=MODEL, contents=messages, config=CONFIG)

    async def async_raw_stream(self, messages: Messages) -> Any:
        return await self._later.generate_content_stream(model=MODEL, contents=messages, config=CONFIG)

    async def async_generator(self, messages: Messages) -> AsyncIterator[Any]:
        async for chunk in await self.async_raw_stream(messages):
            yield chunk


@pytest.mark.parametrize("way", ways(GeminiWays))
def test_a_reply_is_handed_over_as_it_comes(way: str, server: FakeModel) -> None:
    converse(GeminiWays, way, server)


TRANSIENT: dict[str, dict[str, Any]] = {
    "unavailable": {"status": 503},
    "limited": {"status": 429},
    "broken": {"text": "half a sen", "reset": "mid"},
    "cut off": {"text": "half a sentence that ends too early", "cut": "mid"},
}


@pytest.mark.parametrize("way", ["create", "raw_stream"])
@pytest.mark.parametrize("kind", TRANSIENT)
def test_what_its_client_raises_for_trouble_that_passes_is_asked_again(kind: str, way: str) -> None:
    world = Simulation()
    script = [[TRANSIENT[kind], {"text": "Fine."}]]
    with (
        FakeModel(script, exact=True) as server,
        GeminiWays(server.url, False) as clients,
        world.start().session("a", provider="google-genai") as s,
    ):
        assert s.run(getattr(clients, way), prompt="go") == "Fine."
        assert len(server.requests()) == 2


@pytest.mark.parametrize("status", [400, 401, 403, 404])
def test_a_wrong_request_is_raised_at_once(status: int) -> None:
    with (
        FakeModel([{"status": status}], exact=True) as server,
        GeminiWays(server.url, False) as clients,
        pytest.raises(errors.APIError),
        Simulation().start().session("a", provider="google-genai") as s,
    ):
        s.run(clients.create, prompt="go")
    assert len(server.requests()) == 1


@pytest.mark.parametrize("way", ["create", "dumped", "raw_stream"])
@pytest.mark.parametrize(
    ("turn", "told"),
    [({"text": "half", "stop": "MAX_TOKENS"}, "cut off"), ({"text": "x", "stop": "SAFETY"}, "refused")],
)
def test_why_the_model_stopped_decides_how_the_session_ends(turn: Any, told: str, way: str) -> None:
    world = Simulation()
    with FakeModel([turn, {"text": "Fine."}], exact=True) as server, GeminiWays(server.url, False) as clients:
        with world.start().session("a", provider="google-genai") as s:
            assert s.run(getattr(clients, way), prompt="go") is None
        info = world.start().sessions.get("a")
        assert (info.status, told in (info.reason or "")) == ("halted", True)
        with world.start().session("a", provider="google-genai") as s:
            assert s.run(getattr(clients, way), prompt="Another question") == "Fine."
    assert [request.problem for request in server.requests() if request.problem] == []


@pytest.mark.parametrize("way", ["whole", "streamed"])
@pytest.mark.parametrize("kind", ["GenerateContentResponse", "dict"])
def test_a_prompt_that_is_blocked_is_a_refusal_also_in_a_stream(way: str, kind: str) -> None:
    said: Any = {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 7}}
    reply = types.GenerateContentResponse.model_validate(said) if kind != "dict" else said
    with Simulation().start().session("a", provider="google-genai") as s:
        assert s.run(lambda asked: iter([reply]) if way == "streamed" else reply, prompt="go") is None
        assert (s.status, s.usage.input_tokens) == ("halted", 7)
