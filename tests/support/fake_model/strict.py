"""Strict mode: the rules for which providers answer 400 to a conversation.

Every call has exactly one result, and the results of a reply come right after it; ids are unique, of [A-Za-z0-9_-]
and at most 64 characters; the first message is the user's; no text is empty; Anthropic's input is an object and its
thinking signed, OpenAI's arguments are a string of JSON, and a Responses item id begins like its kind.

The order of the results of one reply is free: Claude Code sends those of parallel calls in the order they finished.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_PREFIX: Final = {"function_call": "fc", "message": "msg", "reasoning": "rs", "custom_tool_call": "ctc"}
_ROLES: Final = frozenset({"user", "assistant"})


def problems(api: str, body: Any) -> list[str]:
    """Every rule the conversation breaks, in the order met."""
    checks = {"messages": _messages, "responses": _responses, "chat": _chat, "gemini": _gemini}
    check = checks.get(api)
    return list(check(body)) if check is not None and isinstance(body, dict) else []


def _ids(ids: list[Any]) -> Iterator[str]:
    for location, name in enumerate(ids):
        if not isinstance(name, str) or not _ID.fullmatch(name):
            yield f"call id {name!r} is not of [A-Za-z0-9_-], 1 to 64 characters"
        elif name in ids[:location]:
            yield f"call id {name!r} is used twice"


def _answered(asked: list[Any], results: list[Any], location: str) -> Iterator[str]:
    """The results right after a reply, against its calls."""
    for name in asked:
        if results.count(name) != 1:
            yield f"{location}: call {name!r} has {results.count(name)} results right after it"
    for name in results:
        if name not in asked:
            yield f"{location}: result {name!r} answers no call right before it"


# ---------------------------------------------------------------- Anthropic Messages


def _messages(body: dict[str, Any]) -> Iterator[str]:
    messages = _merged(body.get("messages"))
    if not messages or messages[0]["role"] != "user":
        yield "messages: the first message is not the user's"
    yield from _ids([block.get("id") for message in messages for block in _of(message, "tool_use")])
    for location, message in enumerate(messages):
        before = messages[location - 1] if location else {"role": "", "content": []}
        asked = [block.get("id") for block in _of(before, "tool_use")]
        results = [block.get("tool_use_id") for block in _of(message, "tool_result")]
        yield from _answered(asked, results, f"messages.{location}")
        yield from _content(message, f"messages.{location}")
    if messages and _of(messages[-1], "tool_use"):
        yield f"messages.{len(messages) - 1}: the last message has calls without results"


def _merged(given: Any) -> list[dict[str, Any]]:
    """Neighbours of one role are one message, as the provider reads them; system messages in between are allowed."""
    merged: list[dict[str, Any]] = []
    for message in given if isinstance(given, list) else []:
        if message.get("role") == "system":
            continue
        content = message.get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(content or [])
        if merged and merged[-1]["role"] == message.get("role"):
            merged[-1]["content"] += blocks
        else:
            merged.append({"role": message.get("role"), "content": blocks})
    return merged


def _of(message: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [block for block in message["content"] if block.get("type") == kind]


def _content(message: dict[str, Any], location: str) -> Iterator[str]:
    if message["role"] not in _ROLES:
        yield f"{location}: role {message['role']!r}"
    after_others = False
    for block in message["content"]:
        kind = block.get("type")
        if kind == "tool_result" and after_others:
            yield f"{location}: a result comes after other content"
        after_others = after_others or kind != "tool_result"
        if kind == "text" and not str(block.get("text", "")).strip():
            yield f"{location}: empty text"
        if kind == "tool_use" and not isinstance(block.get("input"), dict):
            yield f"{location}: input of {block.get('id')!r} is not an object"
        if kind == "thinking" and not block.get("signature"):
            yield f"{location}: thinking without a signature"


# ---------------------------------------------------------------- OpenAI Responses


def _responses(body: dict[str, Any]) -> Iterator[str]:
    given = body.get("input")
    if isinstance(given, str):
        return
    items = [item for item in given if isinstance(item, dict)] if isinstance(given, list) else []
    spoken = [item for item in items if item.get("role") not in {"developer", "system"}]
    if not spoken or spoken[0].get("role") != "user":
        yield "input: the first item is not the user's"
    yield from _ids([item.get("call_id") for item in items if _is_call(item)])
    yield from _runs(items)
    for location, item in enumerate(items):
        yield from _item(item, f"input.{location}")


def _is_call(item: dict[str, Any]) -> bool:
    return str(item.get("type")).endswith("_call") and "call_id" in item


def _runs(items: list[dict[str, Any]]) -> Iterator[str]:
    """A reply's calls, then their results, before anything else is said."""
    asked: list[Any] = []
    results: list[Any] = []
    for location, item in enumerate([*items, {"type": "end"}]):
        kind = str(item.get("type", "message"))
        if kind.endswith("_call_output"):
            results.append(item.get("call_id"))
            continue
        if results or (asked and kind in {"message", "end"}):
            yield from _answered(asked, results, f"input.{location}")
            asked, results = [], []
        if _is_call(item):
            asked.append(item.get("call_id"))


def _item(item: dict[str, Any], location: str) -> Iterator[str]:
    kind = str(item.get("type", "message"))
    prefix = _PREFIX.get(kind, "")
    if item.get("id") is not None and not str(item["id"]).startswith(prefix):
        yield f"{location}: id {item['id']!r} does not begin with {prefix!r}"
    if kind == "function_call" and not _is_json(item.get("arguments")):
        yield f"{location}: arguments of {item.get('call_id')!r} are not a string of JSON"
    content = item.get("content")
    parts = content if isinstance(content, list) else [{"text": content}] if isinstance(content, str) else []
    if any(isinstance(part, dict) and part.get("text") == "" for part in parts):
        yield f"{location}: empty text"


def _is_json(text: Any) -> bool:
    if not isinstance(text, str):
        return False
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


# ---------------------------------------------------------------- OpenAI Chat Completions


def _chat(body: dict[str, Any]) -> Iterator[str]:
    given = body.get("messages")
    messages = [message for message in given if isinstance(message, dict)] if isinstance(given, list) else []
    spoken = [message for message in messages if message.get("role") not in {"system", "developer"}]
    if not spoken or spoken[0].get("role") != "user":
        yield "messages: the first message is not the user's"
    calls = [call for message in messages for call in message.get("tool_calls") or []]
    yield from _ids([call.get("id") for call in calls])
    for call in calls:
        if not _is_json((call.get("function") or {}).get("arguments")):
            yield f"arguments of {call.get('id')!r} are not a string of JSON"
    asked: list[Any] = []
    results: list[Any] = []
    for location, message in enumerate([*messages, {"role": "end"}]):
        if message.get("role") == "tool":
            results.append(message.get("tool_call_id"))
            continue
        yield from _answered(asked, results, f"messages.{location}")
        asked, results = [call.get("id") for call in message.get("tool_calls") or []], []


# ---------------------------------------------------------------- Gemini


def _gemini(body: dict[str, Any]) -> Iterator[str]:
    given = body.get("contents")
    contents = [one for one in given if isinstance(one, dict)] if isinstance(given, list) else []
    if not contents or contents[0].get("role") != "user":
        yield "contents: the first content is not the user's"
    asked: list[dict[str, Any]] = []
    for location, content in enumerate([*contents, {"role": "end", "parts": [{"text": "end"}]}]):
        parts = [part for part in content.get("parts") or [] if isinstance(part, dict)]
        if not parts or any(part == {"text": ""} or not part for part in parts):
            yield f"contents.{location}: a part is empty, or there is none"
        results = [part["functionResponse"] for part in parts if isinstance(part.get("functionResponse"), dict)]
        if len(results) != len(asked):
            yield (
                f"contents.{location}: Please ensure that the number of function response parts is equal to the number"
                f" of function call parts of the function call turn: {len(results)}, not {len(asked)}"
            )
        for field in ("name", "id"):
            if sorted(str(one.get(field)) for one in results) != sorted(str(one.get(field)) for one in asked):
                yield f"contents.{location}: results and calls differ in {field}"
        asked = [part["functionCall"] for part in parts if isinstance(part.get("functionCall"), dict)]
        if asked and content.get("role") != "model":
            yield f"contents.{location}: a call that is not the model's"
        if any(not isinstance(call.get("args", {}), dict) for call in asked):
            yield f"contents.{location}: args is not an object"
