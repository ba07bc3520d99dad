"""Anthropic Messages: calls are `tool_use` blocks, results are `tool_result` blocks of the next user message.

All results of one assistant message must be in ONE user message directly after it, in call order and before any other
content. Tools that the provider runs itself (`server_tool_use`, `mcp_tool_use`) are answered inside the assistant
message; they appear in the view and are not run by relight. The top-level `system` field is not a message.
"""

from __future__ import annotations

from typing import Any, Final

from relight.journal.formats.content import (
    are_blocks,
    arguments_of,
    blocks_of,
    image_at,
    is_kind,
    json_text,
    placeholder,
    result_block,
    result_blocks,
    text_of,
)
from relight.journal.formats.format import CallSite, OneMessage, ProviderDict, ToolResult
from relight.values.view import Block, Image, Reason, Text

_RESULT_CONTENT: Final = frozenset({"text", "image", "document", "search_result", "tool_reference"})
_OWN_BLOCKS: Final = frozenset(
    {"tool_use", "tool_result", "thinking", "redacted_thinking", "server_tool_use", "mcp_tool_use"}
)
_SOURCED: Final = frozenset({"image", "document"})


class Anthropic(OneMessage):
    """The format of `client.messages.create(messages=...)`."""

    name = "anthropic"

    def recognises(self, message: ProviderDict) -> bool:
        if message.get("role") not in ("user", "assistant") or "tool_calls" in message:
            return False
        if message.get("type") == "message" and "stop_reason" in message:
            return True
        content = message.get("content")
        return isinstance(content, list) and any(_is_own(block) for block in content)

    def is_assistant(self, message: ProviderDict) -> bool:
        return message.get("role") == "assistant"

    def calls(self, message: ProviderDict) -> tuple[CallSite, ...]:
        if message.get("role") != "assistant":
            return ()
        content = message.get("content")
        if not isinstance(content, list):
            return ()
        # Written out, here and in `answers`: a load asks both for every message.
        return tuple([_site(one) for one in content if isinstance(one, dict) and one.get("type") == "tool_use"])

    def answers(self, message: ProviderDict) -> tuple[str, ...]:
        if message.get("role") != "user":
            return ()
        content = message.get("content")
        if not isinstance(content, list):
            return ()
        found = [one for one in content if isinstance(one, dict) and one.get("type") == "tool_result"]
        return tuple([text_of(one.get("tool_use_id")) for one in found]) if found else ()

    def fragment(self, result: ToolResult) -> ProviderDict:
        content = result.content
        body = content if are_blocks(content, _RESULT_CONTENT) else json_text(content)
        block = {"type": "tool_result", "tool_use_id": result.call_id, "content": body}
        return block if result.status == "ok" else {**block, "is_error": True}

    def user(self, text: str) -> ProviderDict:
        return {"role": "user", "content": text}

    def assistant(self, text: str) -> ProviderDict:
        return {"role": "assistant", "content": [{"type": "text", "text": text}]}

    def is_result(self, block: Any) -> bool:
        return isinstance(block, dict) and block.get("type") == "tool_result"

    def read_result(self, call: str, block: ProviderDict) -> tuple[Block, ...]:
        content = blocks_of(block.get("content"), _read_block)
        return result_blocks(call=call, content=content, failed=block.get("is_error") is True)

    def read_rest(self, message: ProviderDict) -> tuple[Block, ...]:
        return blocks_of(message.get("content"), _read_block)


ANTHROPIC: Final = Anthropic()


def _is_own(block: Any) -> bool:
    """Whether only this provider has such a block."""
    if not isinstance(block, dict):
        return False
    kind = block.get("type")
    return is_kind(kind, _OWN_BLOCKS) or (is_kind(kind, _SOURCED) and isinstance(block.get("source"), dict))


def _site(block: dict[str, Any]) -> CallSite:
    return CallSite(
        id=text_of(block.get("id")),
        name=text_of(block.get("name")),
        arguments=arguments_of(block.get("input")),
    )


def _read_block(block: dict[str, Any]) -> Block:
    kind = text_of(block.get("type"))
    if kind == "text":
        return Text(text=text_of(block.get("text")))
    if kind == "image":
        return _read_image(block.get("source"))
    if kind == "thinking":
        return Reason(text=text_of(block.get("thinking")), opaque=text_of(block.get("signature")))
    if kind == "redacted_thinking":
        return Reason(opaque=text_of(block.get("data")))
    if kind in ("tool_use", "server_tool_use", "mcp_tool_use"):
        return _site(block).view()
    if kind.endswith("tool_result"):
        call, text = text_of(block.get("tool_use_id")), json_text(block.get("content"))
        return result_block(call=call, text=text, failed=block.get("is_error") is True)
    return placeholder(block)


def _read_image(source: Any) -> Image:
    if not isinstance(source, dict):
        return Image()
    if source.get("type") == "url":
        return image_at(source.get("url"))
    return Image(media=text_of(source.get("media_type")), data=text_of(source.get("data")))
