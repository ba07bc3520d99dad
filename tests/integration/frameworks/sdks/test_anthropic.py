"""Anthropic's own client against a server that refuses what the real one would."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import anthropic
import pytest

import relight
from tests.integration.frameworks.sdks.conftest import SCHEMA, Clients, converse, ways
from tests.support.fake_model import FakeModel

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
