"""OpenAI Chat Completions: calls are `assistant.tool_calls[]`, each result is a message of role `tool`.

The results of one assistant message follow it directly, in call order. Many other providers use this format; some omit
ids, and then results answer calls by position. The legacy `function_call` and role `function` are recognised and
stored, but have no ids and are not paired. There is no field for failure: a failed result's text begins with `[error]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from relight.journal.formats.content import (
    ERROR_MARK,
    are_blocks,
    arguments_of,
    blocks_of,
    image_at,
    is_kind,
    json_text,
    marked,
    placeholder,
    result_blocks,
    text_of,
)
from relight.journal.formats.format import CallSite, OwnMessages, ProviderDict, ToolResult
from relight.values.view import Block, Message, Reason, Role, Text

_RESULT_CONTENT: Final = frozenset({"text"})
_OWN_PARTS: Final = frozenset({"image_url", "file"})
_ROLES: Final[dict[str, Role]] = {
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}


class OpenAIChat(OwnMessages):
    """The format of `client.chat.completions.create(messages=...)`."""

    name = "openai_chat"
    spans = False

    def recognises(self, message: ProviderDict) -> bool:
        role = message.get("role")
        if role in ("tool", "function"):
            return True
        if role == "assistant" and _is_own_reply(message):
            return True
        content = message.get("content")
        return role == "user" and isinstance(content, list) and any(_is_own(part) for part in content)

    def is_assistant(self, message: ProviderDict) -> bool:
        return message.get("role") == "assistant"

    def calls(self, message: ProviderDict) -> tuple[CallSite, ...]:
        tool_calls = message.get("tool_calls")
        if not tool_calls or not isinstance(tool_calls, list) or message.get("role") != "assistant":
            return ()
        return tuple([_site(call) for call in tool_calls if isinstance(call, dict)])

    def answers(self, message: ProviderDict) -> tuple[str, ...]:
        if message.get("role") != "tool":
            return ()
        return (text_of(message.get("tool_call_id")),)

    def fragment(self, result: ToolResult) -> ProviderDict:
        content: Any = result.content
        if not are_blocks(content, _RESULT_CONTENT):
            content = marked(json_text(content), result.status)
        elif result.status == "error":
            content = [{"type": "text", "text": ERROR_MARK}, *content]
        return {"role": "tool", "tool_call_id": result.call_id, "content": content}

    def faults(self, message: ProviderDict) -> list[str]:
        return [
            f"the arguments of call {site.id!r} are no text"
            for site in self.calls(message)
            if not isinstance(site.arguments, str)
        ]

    def read(self, messages: Sequence[ProviderDict]) -> list[Message]:
        return [_read(message, index) for index, message in enumerate(messages)]

    def user(self, text: str) -> ProviderDict:
        return {"role": "user", "content": text}

    def assistant(self, text: str) -> ProviderDict:
        return {"role": "assistant", "content": text}


OPENAI_CHAT: Final = OpenAIChat()


def _is_own_reply(message: ProviderDict) -> bool:
    """Whether only this format has such an assistant message."""
    if isinstance(message.get("tool_calls"), list) or isinstance(message.get("function_call"), dict):
        return True
    return "type" not in message and "content" in message and message["content"] is None


def _is_own(part: Any) -> bool:
    """Whether only this format has such a part."""
    return isinstance(part, dict) and is_kind(part.get("type"), _OWN_PARTS)


def _site(call: dict[str, Any]) -> CallSite:
    """A function call has JSON text as arguments; a custom one has free text as input."""
    function, custom = call.get("function"), call.get("custom")
    if isinstance(function, dict):
        name, arguments, kind = function.get("name"), function.get("arguments"), ""
    elif isinstance(custom, dict):
        name, arguments, kind = custom.get("name"), custom.get("input"), "custom"
    else:
        name, arguments, kind = None, None, ""
    return CallSite(id=text_of(call.get("id")), name=text_of(name), arguments=arguments_of(arguments), kind=kind)


def _read(message: ProviderDict, index: int) -> Message:
    role = _ROLES.get(text_of(message.get("role")), "system")
    content = blocks_of(message.get("content"), _read_part)
    if role == "tool":
        call = text_of(message.get("tool_call_id"))
        return Message(role=role, blocks=result_blocks(call=call, content=content), index=index)
    if role != "assistant":
        return Message(role=role, blocks=content, index=index)
    blocks = (*_reasons(message), *content, *_refusals(message), *(site.view() for site in OPENAI_CHAT.calls(message)))
    return Message(role=role, blocks=blocks, index=index)


def _reasons(message: ProviderDict) -> tuple[Block, ...]:
    """Reasoning in the fields that several providers of this format use."""
    text = text_of(message.get("reasoning_content")) or text_of(message.get("reasoning"))
    return (Reason(text=text),) if text else ()


def _refusals(message: ProviderDict) -> tuple[Block, ...]:
    text = text_of(message.get("refusal"))
    return (Text(text=text),) if text else ()


def _read_part(part: dict[str, Any]) -> Block:
    kind = text_of(part.get("type"))
    if kind in ("text", "refusal"):
        return Text(text=text_of(part.get(kind)))
    if kind == "thinking":
        return Reason(text=_thought(part.get("thinking")))
    if kind == "image_url":
        image = part.get("image_url")
        return image_at(image.get("url") if isinstance(image, dict) else image)
    return placeholder(part)


def _thought(thinking: Any) -> str:
    """Reasoning inside the content, as some providers of this format write it: a text, or parts with texts."""
    if isinstance(thinking, list):
        return "\n".join(text_of(part.get("text")) for part in thinking if isinstance(part, dict))
    return text_of(thinking)
