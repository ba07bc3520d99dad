"""Exact mode: fields of a conversation for which providers answer 400, because they are none of the request's.

What a response has and a request has not (ids, usage, stop reasons, what an SDK parsed) is refused, and so is null
where it has no meaning, an assistant message without anything in it, and a fifth mark of Anthropic's cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tests.support.fake_model.gemini import SIGNATURE

_MARKS: Final = 4
_BLOCKS: Final = {
    "text": "type text citations cache_control",
    "tool_use": "type id name input caller cache_control",
    "tool_result": "type tool_use_id content is_error cache_control",
    "thinking": "type thinking signature",
}
_CHAT: Final = {
    "system": "role content name",
    "developer": "role content name",
    "user": "role content name",
    "assistant": "role content name refusal tool_calls audio function_call",
    "tool": "role content tool_call_id",
}
_ITEMS: Final = {
    "message": "type id role status content phase",
    "function_call": "type id call_id name arguments status namespace",
    "function_call_output": "type id call_id output status",
    "custom_tool_call": "type id call_id name input",
    "custom_tool_call_output": "type id call_id output",
    "reasoning": "type id summary content encrypted_content status",
}
_PARTS: Final = {
    "input_text": "type text",
    "output_text": "type text annotations logprobs",
    "refusal": "type refusal",
}
_GEMINI_PARTS: Final = (
    "text thought thoughtSignature inlineData fileData functionCall functionResponse executableCode codeExecutionResult"
    " videoMetadata"
)


def unknown_fields(api: str, body: dict[str, Any]) -> list[str]:
    """Every field or value that the provider would refuse."""
    checks = {"messages": _messages, "responses": _responses, "chat": _chat, "gemini": _gemini}
    return list(checks[api](body))


def _fields(given: Any, known: str, place: str, nullable: str = "") -> Iterator[str]:
    if not isinstance(given, dict):
        yield f"{place}: not an object"
        return
    for name, value in given.items():
        if name not in known.split():
            yield f"{place}.{name}: Extra inputs are not permitted"
        elif value is None and name not in nullable.split():
            yield f"{place}.{name}: null is no valid value"


def _messages(body: dict[str, Any]) -> Iterator[str]:
    marks = str(body).count("'cache_control': {")
    if marks > _MARKS:
        yield f"A maximum of {_MARKS} blocks with cache_control may be provided. Found {marks}."
    for number, message in enumerate(body["messages"]):
        place = f"messages.{number}"
        yield from _fields(message, "role content", place)
        content = message.get("content")
        if not content:
            yield f"{place}: all messages must have non-empty content"
        for block in content if isinstance(content, list) else ():
            yield from _fields(block, _BLOCKS.get(block.get("type"), "type"), f"{place}.content")


def _chat(body: dict[str, Any]) -> Iterator[str]:
    for number, message in enumerate(body["messages"]):
        place = f"messages.{number}"
        yield from _fields(message, _CHAT.get(message.get("role"), "role"), place, "content")
        if message.get("role") == "assistant":
            if message.get("content") is None and not message.get("tool_calls") and not message.get("refusal"):
                yield f"{place}: content is required unless tool_calls is given"
            if message.get("tool_calls") == []:
                yield f"{place}.tool_calls: too short"
        for call in message.get("tool_calls") or ():
            yield from _fields(call, "id type function custom", f"{place}.tool_calls")
            yield from _fields(call.get("function", {}), "name arguments", f"{place}.tool_calls.function")


def _responses(body: dict[str, Any]) -> Iterator[str]:
    for number, item in enumerate(body["input"] if isinstance(body["input"], list) else ()):
        place, kind = f"input.{number}", item.get("type", "message")
        yield from _fields(item, _ITEMS.get(kind, "type"), place)
        for part in item["content"] if isinstance(item.get("content"), list) else ():
            yield from _fields(part, _PARTS.get(part.get("type"), "type"), f"{place}.content")


def _gemini(body: dict[str, Any]) -> Iterator[str]:
    for number, content in enumerate(body["contents"]):
        place = f"contents[{number}]"
        yield from _fields(content, "role parts", place)
        if content.get("role") not in ("user", "model"):
            yield f"{place}: Please use a valid role: user, model."
        for part in content.get("parts") or ():
            yield from _fields(part, _GEMINI_PARTS, f"{place}.parts")
            if part.get("thoughtSignature", SIGNATURE) != SIGNATURE:
                yield f"{place}.parts: Thought signature is not valid."
            yield from _fields(part.get("functionCall", {}), "id name args", f"{place}.parts.function_call")
            known = "id name response parts scheduling willContinue"
            yield from _fields(part.get("functionResponse", {}), known, f"{place}.parts.function_response")
            if "functionResponse" in part and not isinstance(part["functionResponse"].get("response"), dict):
                yield f"{place}.parts.function_response.response: not an object"
