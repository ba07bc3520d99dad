"""Writers of plain messages: a conversation in the grammar of `grammar.py`, as a provider's API takes it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from relight.journal.formats.content import marked
from relight.journal.formats.format import ProviderDict
from relight.values.view import Call, Image, Message, Result, Text


def anthropic(messages: Sequence[Message]) -> list[ProviderDict]:
    """As messages of Anthropic's API, one for each message."""
    found: list[ProviderDict] = []
    for message in messages:
        if message.role == "tool":
            content = [_anthropic_result(result, images) for result, images in answers_of(message)]
        else:
            content = [_anthropic_block(block) for block in message.blocks]
        role = "assistant" if message.role == "assistant" else "user"
        only_text = role == "user" and len(content) == 1 and content[0]["type"] == "text"
        found.append({"role": role, "content": content[0]["text"] if only_text else content})
    return found


def openai_responses(messages: Sequence[Message]) -> list[ProviderDict]:
    """As items of OpenAI's Responses API. Without item ids: those are the provider's own."""
    return [item for message in messages for item in _items(message)]


def openai_chat(messages: Sequence[Message]) -> list[ProviderDict]:
    """As messages of OpenAI's Chat Completions. It has no images in results: they follow in a message of the user."""
    return [item for message in messages for item in _chat(message)]


WRITERS: Final[dict[str, Callable[[Sequence[Message]], list[ProviderDict]]]] = {
    "anthropic": anthropic,
    "openai_responses": openai_responses,
    "openai_chat": openai_chat,
}
"""by the name of the format"""


def answers_of(message: Message) -> Iterator[tuple[Result, list[Image]]]:
    """The results in a message of tools, each with its images."""
    results = [index for index, block in enumerate(message.blocks) if isinstance(block, Result)]
    for start, end in zip(results, [*results[1:], len(message.blocks)], strict=True):
        result = message.blocks[start]
        assert isinstance(result, Result)
        yield result, [block for block in message.blocks[start:end] if isinstance(block, Image)]


def output_of(result: Result, images: Sequence[Image], image_part: Callable[[Image], ProviderDict]) -> Any:
    """The output of a call where a failure has no field of its own: a text, or a list of parts."""
    text = marked(result.text, result.status)
    if not images:
        return text
    return [*([{"type": "input_text", "text": text}] if text else []), *map(image_part, images)]


def input_image(image: Image) -> ProviderDict:
    """An image as a part of a Responses item."""
    return {"type": "input_image", "image_url": _address(image)}


def _items(message: Message) -> Iterator[ProviderDict]:
    if message.role == "tool":
        for result, images in answers_of(message):
            output = output_of(result, images, input_image)
            yield {"type": "function_call_output", "call_id": result.call, "output": output}
        return
    kind = "output_text" if message.role == "assistant" else "input_text"
    content: list[ProviderDict] = []
    for block in message.blocks:
        if isinstance(block, Call):
            if content:
                yield {"type": "message", "role": message.role, "content": content}
                content = []
            arguments = json.dumps(block.arguments, ensure_ascii=False)
            yield {"type": "function_call", "name": block.name, "arguments": arguments, "call_id": block.id}
        elif isinstance(block, Text):
            content.append({"type": kind, "text": block.text})
        elif isinstance(block, Image):
            content.append(input_image(block))
    if content:
        yield {"type": "message", "role": message.role, "content": content}


def _chat(message: Message) -> Iterator[ProviderDict]:
    parts = [_chat_part(block) for block in message.blocks if isinstance(block, Text | Image)]
    if message.role == "tool":
        for result, _ in answers_of(message):
            yield {"role": "tool", "tool_call_id": result.call, "content": marked(result.text, result.status)}
        if parts:
            yield {"role": "user", "content": parts}
        return
    said: ProviderDict = {"role": message.role, "content": parts or None}
    if len(parts) == 1 and parts[0]["type"] == "text":
        said["content"] = parts[0]["text"]
    calls = [block for block in message.blocks if isinstance(block, Call)]
    if calls:
        said["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
            }
            for call in calls
        ]
    yield said


def _anthropic_block(block: Any) -> ProviderDict:
    if isinstance(block, Call):
        return {"type": "tool_use", "id": block.id, "name": block.name, "input": block.arguments}
    if isinstance(block, Image):
        source = (
            {"type": "url", "url": block.url}
            if block.url
            else {"type": "base64", "media_type": block.media, "data": block.data}
        )
        return {"type": "image", "source": source}
    return {"type": "text", "text": block.text}


def _anthropic_result(result: Result, images: Sequence[Image]) -> ProviderDict:
    content: Any = result.text
    if images:
        content = [*([_anthropic_block(Text(text=result.text))] if result.text else []), *map(_anthropic_block, images)]
    return {
        "type": "tool_result",
        "tool_use_id": result.call,
        "content": content,
        "is_error": result.status != "ok",
    }


def _chat_part(block: Text | Image) -> ProviderDict:
    if isinstance(block, Text):
        return {"type": "text", "text": block.text}
    return {"type": "image_url", "image_url": {"url": _address(block)}}


def _address(image: Image) -> str:
    return image.url or f"data:{image.media};base64,{image.data}"
