"""Amazon Bedrock Converse: calls are `toolUse` blocks, results are `toolResult` blocks of the next user message.

A block has no `type`: its one key says what it is. All results of one assistant message are in ONE user message
directly after it, before any other content. Tools that the provider runs itself (`type: server_tool_use`) are answered
inside the assistant message and are not run by relight. Content is always a list, also of a single text, and a text is
never empty. The top-level `system` field is not a message. Bytes (images, redacted reasoning) are not JSON: a model
function has to encode them before it returns them.
"""

from __future__ import annotations

from typing import Any, Final

from relight.journal.formats.content import arguments_of, blocks_of, json_text, result_blocks, text_of
from relight.journal.formats.format import CallSite, OneMessage, ProviderDict, ToolResult
from relight.values.view import Block, Image, Placeholder, Reason, Text

_KINDS: Final = frozenset(
    {
        "text", "toolUse", "toolResult", "image", "document", "video", "audio", "reasoningContent", "guardContent",
        "cachePoint", "citationsContent", "searchResult", "toolAddition", "toolRemoval",
    }
)  # fmt: skip
_RESULT_CONTENT: Final = frozenset({"text", "json", "image", "document", "video", "searchResult"})


class Bedrock(OneMessage):
    """The format of `client.converse(messages=...)`."""

    name = "bedrock"

    def recognises(self, message: ProviderDict) -> bool:
        content = message.get("content")
        return message.get("role") in ("user", "assistant") and isinstance(content, list) and any(map(_is_own, content))

    def is_assistant(self, message: ProviderDict) -> bool:
        return message.get("role") == "assistant"

    def calls(self, message: ProviderDict) -> tuple[CallSite, ...]:
        if message.get("role") != "assistant":
            return ()
        return tuple([_site(use) for use in _inner(message, "toolUse") if use.get("type") != "server_tool_use"])

    def answers(self, message: ProviderDict) -> tuple[str, ...]:
        if message.get("role") != "user":
            return ()
        return tuple([text_of(result.get("toolUseId")) for result in _inner(message, "toolResult")])

    def fragment(self, result: ToolResult) -> ProviderDict:
        given = result.content
        if isinstance(given, list) and given and all(_has_one_of(block, _RESULT_CONTENT) for block in given):
            content = given
        else:
            text = json_text(given)
            content = [{"text": text}] if text else []
        inner = {"toolUseId": result.call_id, "content": content}
        return {"toolResult": inner if result.status == "ok" else {**inner, "status": "error"}}

    def user(self, text: str) -> ProviderDict:
        return {"role": "user", "content": [{"text": text}]}

    def assistant(self, text: str) -> ProviderDict:
        return {"role": "assistant", "content": [{"text": text}]}

    def is_result(self, block: Any) -> bool:
        return isinstance(block, dict) and isinstance(block.get("toolResult"), dict)

    def read_result(self, call: str, block: ProviderDict) -> tuple[Block, ...]:
        result = block["toolResult"]
        content = blocks_of(result.get("content"), _read_block)
        return result_blocks(call=call, content=content, failed=result.get("status") == "error")

    def read_rest(self, message: ProviderDict) -> tuple[Block, ...]:
        return blocks_of(message.get("content"), _read_block)


BEDROCK: Final = Bedrock()


def _has_one_of(block: Any, kinds: frozenset[str]) -> bool:
    return isinstance(block, dict) and len(block) == 1 and not kinds.isdisjoint(block)


def _is_own(block: Any) -> bool:
    """Whether only this provider has such a block."""
    return isinstance(block, dict) and "type" not in block and _has_one_of(block, _KINDS)


def _inner(message: ProviderDict, key: str) -> list[dict[str, Any]]:
    content = message.get("content")
    blocks = content if isinstance(content, list) else []
    return [block[key] for block in blocks if isinstance(block, dict) and isinstance(block.get(key), dict)]


def _site(use: dict[str, Any]) -> CallSite:
    name, arguments = text_of(use.get("name")), arguments_of(use.get("input"))
    return CallSite(id=text_of(use.get("toolUseId")), name=name, arguments=arguments)


def _read_block(block: dict[str, Any]) -> Block:
    kind = next((one for one in block if one in _KINDS or one == "json"), "unknown")
    inner = block.get(kind)
    if kind == "text":
        return Text(text=text_of(inner))
    if kind == "json":
        return Text(text=json_text(inner))
    if not isinstance(inner, dict):
        return Placeholder(text=f"[{kind}]")
    if kind == "toolUse":
        return _site(inner).view()
    if kind == "image":
        source = inner.get("source")
        data = source.get("bytes") if isinstance(source, dict) else ""
        return Image(media=f"image/{text_of(inner.get('format'))}", data=text_of(data))
    if kind == "reasoningContent":
        reasoning = inner.get("reasoningText")
        reasoning = reasoning if isinstance(reasoning, dict) else {}
        return Reason(text=text_of(reasoning.get("text")), opaque=text_of(reasoning.get("signature")))
    if kind == "citationsContent":
        parts = inner.get("content")
        cited = [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
        return Text(text="".join([text_of(part.get("text")) for part in cited]))
    return Placeholder(text=f"[{kind}]")
