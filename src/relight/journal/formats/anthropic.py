"""Anthropic Messages: calls are `tool_use` blocks, results are `tool_result` blocks of the next user message.

All results of one assistant message must be in ONE user message directly after it, in call order and before any other
content. Tools that the provider runs itself (`server_tool_use`, `mcp_tool_use`) are answered inside the assistant
message; they appear in the view and are not run by relight. The top-level `system` field is not a message.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_
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
from relight.journal.formats.format import CallSite, ProviderDict, ToolResult, argument_faults
from relight.values.view import Block, Image, Message, Reason, Role, Text

_RESULT_CONTENT: Final = frozenset({"text", "image", "document", "search_result", "tool_reference"})
_OWN_BLOCKS: Final = frozenset(
    {"tool_use", "tool_result", "thinking", "redacted_thinking", "server_tool_use", "mcp_tool_use"}
)
_SOURCED: Final = frozenset({"image", "document"})
_ROLES: Final[dict[str, Role]] = {"user": "user", "assistant": "assistant"}


class Anthropic:
    """The format of `client.messages.create(messages=...)`."""

    name = "anthropic"
    native = False
    spans = False
    shares = True
    opens_with_user = True

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

    def split(self, message: ProviderDict) -> tuple[list[tuple[str, ProviderDict]], ProviderDict | None]:
        content: list[Any] = message["content"] if self.answers(message) else []
        found = [(text_of(block.get("tool_use_id")), block) for block in content if _is(block, "tool_result")]
        if not found:
            return [], message
        rest = [block for block in content if not _is(block, "tool_result")]
        return found, {**message, "content": rest} if rest else None

    def join(self, fragments: Sequence[ProviderDict], carrier: ProviderDict | None) -> list[ProviderDict]:
        if carrier is None:
            return [{"role": "user", "content": list(fragments)}]
        former: list[Any] = carrier["content"]
        content = [*fragments, *(block for block in former if not _is(block, "tool_result"))]
        unchanged = len(content) == len(former) and all(map(is_, content, former))
        return [carrier if unchanged else {**carrier, "content": content}]

    def fragment(self, result: ToolResult) -> ProviderDict:
        content = result.content
        body = content if are_blocks(content, _RESULT_CONTENT) else json_text(content)
        block = {"type": "tool_result", "tool_use_id": result.call_id, "content": body}
        return block if result.status == "ok" else {**block, "is_error": True}

    def render(self, results: Sequence[ToolResult]) -> list[ProviderDict]:
        return self.join([self.fragment(result) for result in results], None) if results else []

    def faults(self, message: ProviderDict) -> list[str]:
        found = argument_faults(self.calls(message))
        answered = len(self.answers(message))
        if answered and not all(_is(block, "tool_result") for block in message["content"][:answered]):
            found.append("results do not come first in their message")
        return found

    def read(self, messages: Sequence[ProviderDict]) -> list[Message]:
        return [part for index, message in enumerate(messages) for part in self._parts(message, index)]

    def user(self, text: str) -> ProviderDict:
        return {"role": "user", "content": text}

    def assistant(self, text: str) -> ProviderDict:
        return {"role": "assistant", "content": [{"type": "text", "text": text}]}

    def _parts(self, message: ProviderDict, index: int) -> list[Message]:
        """A user dict with results and text is two messages: the tools' and the user's."""
        fragments, rest = self.split(message)
        parts = []
        if fragments:
            blocks = tuple(block for call, result in fragments for block in _read_result(call, result))
            parts.append(Message(role="tool", blocks=blocks, index=index))
        if rest is not None:
            role = _ROLES.get(text_of(message.get("role")), "system")
            blocks = blocks_of(rest.get("content"), _read_block)
            parts.append(Message(role=role, blocks=blocks, index=index))
        return parts


ANTHROPIC: Final = Anthropic()


def _is(block: Any, kind: str) -> bool:
    return isinstance(block, dict) and block.get("type") == kind


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


def _read_result(call: str, block: dict[str, Any]) -> tuple[Block, ...]:
    content = blocks_of(block.get("content"), _read_block)
    return result_blocks(call=call, content=content, failed=block.get("is_error") is True)


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
