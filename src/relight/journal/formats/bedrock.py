"""Amazon Bedrock Converse: calls are `toolUse` blocks, results are `toolResult` blocks of the next user message.

A block has no `type`: its one key says what it is. All results of one assistant message are in ONE user message
directly after it, before any other content. Tools that the provider runs itself (`type: server_tool_use`) are answered
inside the assistant message and are not run by relight. Content is always a list, also of a single text, and a text is
never empty. The top-level `system` field is not a message. Bytes (images, redacted reasoning) are not JSON: a model
function has to encode them before it returns them.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_
from typing import Any, Final

from relight.journal.formats.content import arguments_of, blocks_of, json_text, result_blocks, text_of
from relight.journal.formats.format import CallSite, ProviderDict, ToolResult, argument_faults
from relight.values.view import Block, Image, Message, Reason, Role, Text

_KINDS: Final = frozenset(
    {
        "text", "toolUse", "toolResult", "image", "document", "video", "audio", "reasoningContent", "guardContent",
        "cachePoint", "citationsContent", "searchResult", "toolAddition", "toolRemoval",
    }
)  # fmt: skip
_RESULT_CONTENT: Final = frozenset({"text", "json", "image", "document", "video", "searchResult"})
_ROLES: Final[dict[str, Role]] = {"user": "user", "assistant": "assistant"}


class Bedrock:
    """The format of `client.converse(messages=...)`."""

    name = "bedrock"
    native = False
    spans = False
    shares = True
    opens_with_user = True

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

    def split(self, message: ProviderDict) -> tuple[list[tuple[str, ProviderDict]], ProviderDict | None]:
        content: list[Any] = message["content"] if self.answers(message) else []
        found = [(text_of(block["toolResult"].get("toolUseId")), block) for block in content if _is_result(block)]
        if not found:
            return [], message
        rest = [block for block in content if not _is_result(block)]
        return found, {**message, "content": rest} if rest else None

    def join(self, fragments: Sequence[ProviderDict], carrier: ProviderDict | None) -> list[ProviderDict]:
        if carrier is None:
            return [{"role": "user", "content": list(fragments)}]
        former: list[Any] = carrier["content"]
        content = [*fragments, *(block for block in former if not _is_result(block))]
        unchanged = len(content) == len(former) and all(map(is_, content, former))
        return [carrier if unchanged else {**carrier, "content": content}]

    def fragment(self, result: ToolResult) -> ProviderDict:
        given = result.content
        if isinstance(given, list) and given and all(_has_one_of(block, _RESULT_CONTENT) for block in given):
            content = given
        else:
            text = json_text(given)
            content = [{"text": text}] if text else []
        inner = {"toolUseId": result.call_id, "content": content}
        return {"toolResult": inner if result.status == "ok" else {**inner, "status": "error"}}

    def render(self, results: Sequence[ToolResult]) -> list[ProviderDict]:
        return self.join([self.fragment(result) for result in results], None) if results else []

    def faults(self, message: ProviderDict) -> list[str]:
        found = argument_faults(self.calls(message))
        answered = len(self.answers(message))
        if answered and not all(map(_is_result, message["content"][:answered])):
            found.append("results do not come first in their message")
        return found

    def read(self, messages: Sequence[ProviderDict]) -> list[Message]:
        return [part for index, message in enumerate(messages) for part in self._parts(message, index)]

    def user(self, text: str) -> ProviderDict:
        return {"role": "user", "content": [{"text": text}]}

    def assistant(self, text: str) -> ProviderDict:
        return {"role": "assistant", "content": [{"text": text}]}

    def _parts(self, message: ProviderDict, index: int) -> list[Message]:
        """A user dict with results and text is two messages: the tools' and the user's."""
        fragments, rest = self.split(message)
        parts = []
        if fragments:
            blocks = tuple(block for call, one in fragments for block in _read_result(call, one["toolResult"]))
            parts.append(Message(role="tool", blocks=blocks, index=index))
        if rest is not None:
            role = _ROLES.get(text_of(message.get("role")), "system")
            parts.append(Message(role=role, blocks=blocks_of(rest.get("content"), _read_block), index=index))
        return parts


BEDROCK: Final = Bedrock()


def _has_one_of(block: Any, kinds: frozenset[str]) -> bool:
    return isinstance(block, dict) and len(block) == 1 and not kinds.isdisjoint(block)


def _is_own(block: Any) -> bool:
    """Whether only this provider has such a block."""
    return isinstance(block, dict) and "type" not in block and _has_one_of(block, _KINDS)


def _is_result(block: Any) -> bool:
    return isinstance(block, dict) and isinstance(block.get("toolResult"), dict)


def _inner(message: ProviderDict, key: str) -> list[dict[str, Any]]:
    content = message.get("content")
    blocks = content if isinstance(content, list) else []
    return [block[key] for block in blocks if isinstance(block, dict) and isinstance(block.get(key), dict)]


def _site(use: dict[str, Any]) -> CallSite:
    name, arguments = text_of(use.get("name")), arguments_of(use.get("input"))
    return CallSite(id=text_of(use.get("toolUseId")), name=name, arguments=arguments)


def _read_result(call: str, result: dict[str, Any]) -> tuple[Block, ...]:
    return result_blocks(
        call=call, content=blocks_of(result.get("content"), _read_block), failed=result.get("status") == "error"
    )


def _read_block(block: dict[str, Any]) -> Block:
    kind = next((one for one in block if one in _KINDS or one == "json"), "unknown")
    inner = block.get(kind)
    if kind == "text":
        return Text(text=text_of(inner))
    if kind == "json":
        return Text(text=json_text(inner))
    if not isinstance(inner, dict):
        return Text(text=f"[{kind}]")
    if kind == "toolUse":
        return _site(inner).view()
    if kind == "image":
        source = inner.get("source")
        data = source.get("bytes") if isinstance(source, dict) else ""
        return Image(media=f"image/{text_of(inner.get('format'))}", data=text_of(data))
    if kind == "reasoningContent":
        told = inner.get("reasoningText")
        told = told if isinstance(told, dict) else {}
        return Reason(text=text_of(told.get("text")), opaque=text_of(told.get("signature")))
    return Text(text=f"[{kind}]")
