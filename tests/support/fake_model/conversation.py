"""The conversation inside a request, whichever API it came by: one flat list of items, in order.

It is read leniently (a strict reading is in strict.py) and independently of relight's own readers, so that a test
does not ask the code under test what it did.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

Kind = Literal["system", "user", "assistant", "reason", "call", "result"]
_ROLES: Final[dict[Any, Kind]] = {"assistant": "assistant", "user": "user"}
FILLERS: Final = ("No response requested.", "[The previous response was interrupted", "[relight]")
"""replies that no model gave: Claude Code's and Gemini CLI's, on resuming after a result, and relight's own notes"""
_PRODUCED: Final = frozenset({"assistant", "reason", "call"})
_CALLS: Final = {"function_call": "arguments", "custom_tool_call": "input", "local_shell_call": "action"}


@dataclass(frozen=True, kw_only=True)
class Item:
    """One thing said, asked or answered."""

    kind: Kind
    turn: int
    """0 before the first reply; items of the n-th reply and of the answers to it have n; fillers are no replies"""
    id: str = ""
    """of a call, or of the call a result answers"""
    name: str = ""
    """of the tool"""
    value: Any = None
    """the text; the arguments of a call, parsed where they parse"""
    error: bool = False
    """a result marked as failed, where the API can mark one"""


def read(api: str, body: Any) -> list[Item]:
    """The conversation of one request body."""
    readers = {"messages": _messages, "responses": _responses, "chat": _chat, "gemini": _gemini}
    reader = readers.get(api)
    return list(reader(body)) if reader is not None and isinstance(body, dict) else []


def turns(items: Sequence[Item]) -> int:
    """How many replies of the model are in it."""
    return max((item.turn for item in items), default=0)


def is_filler(text: Any) -> bool:
    """Was this put into the model's mouth?"""
    return isinstance(text, str) and text.startswith(FILLERS)


def texts(items: Sequence[Item], kind: Kind | None = None) -> list[str]:
    """What was said, by the user or the assistant, or in the results."""
    return [item.value for item in items if isinstance(item.value, str) and kind in {None, item.kind}]


def pairs(items: Sequence[Item]) -> list[tuple[Item, Item | None]]:
    """Every call with its first result, or None."""
    results: dict[str, Item] = {}
    for item in items:
        if item.kind == "result":
            results.setdefault(item.id, item)
    return [(item, results.get(item.id)) for item in items if item.kind == "call"]


def unpaired(items: Sequence[Item]) -> list[str]:
    """Ids of calls that have not exactly one result, and of results nobody asked for. Empty is what must hold."""
    calls = [item.id for item in items if item.kind == "call"]
    results = [item.id for item in items if item.kind == "result"]
    return sorted({name for name in (*calls, *results) if calls.count(name) != 1 or results.count(name) != 1})


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str))


def _parsed(arguments: Any) -> Any:
    if not isinstance(arguments, str):
        return arguments
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


def _listed(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _messages(body: dict[str, Any]) -> Iterator[Item]:
    if system := _text(body.get("system")):
        yield Item(kind="system", turn=0, value=system)
    turn = 0
    for message in _listed(body.get("messages")):
        role = _ROLES.get(message.get("role"), "system")
        content = message.get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else _listed(content)
        turn += role == "assistant" and not all(is_filler(block.get("text")) for block in blocks)
        for block in blocks:
            yield _block(block, turn, role)


def _block(block: dict[str, Any], turn: int, role: Kind) -> Item:
    match block.get("type"):
        case "tool_use":
            return Item(
                kind="call", turn=turn, id=str(block.get("id")), name=str(block.get("name")), value=block.get("input")
            )
        case "tool_result":
            error = block.get("is_error") is True
            return Item(
                kind="result",
                turn=turn,
                id=str(block.get("tool_use_id")),
                value=_text(block.get("content")),
                error=error,
            )
        case "thinking" | "redacted_thinking":
            return Item(kind="reason", turn=turn, value=block.get("thinking", ""))
        case _:
            return Item(kind=role, turn=turn, value=block.get("text"))


def _chat(body: dict[str, Any]) -> Iterator[Item]:
    turn = 0
    for message in _listed(body.get("messages")):
        role, text = message.get("role"), _text(message.get("content"))
        if role == "tool":
            yield Item(kind="result", turn=turn, id=str(message.get("tool_call_id")), value=text)
        elif role == "assistant":
            turn += not is_filler(text)
            if text:
                yield Item(kind="assistant", turn=turn, value=text)
            for call in _listed(message.get("tool_calls")):
                made = call.get("function") or {}
                arguments = _parsed(made.get("arguments"))
                yield Item(kind="call", turn=turn, id=str(call.get("id")), name=str(made.get("name")), value=arguments)
        else:
            yield Item(kind=_ROLES.get(role, "system"), turn=turn, value=text)


def _responses(body: dict[str, Any]) -> Iterator[Item]:
    if isinstance(body.get("instructions"), str):
        yield Item(kind="system", turn=0, value=body["instructions"])
    given = body.get("input")
    if isinstance(given, str):
        yield Item(kind="user", turn=0, value=given)
    turn, produced = 0, False
    for raw in _listed(given):
        item = _response_item(raw)
        replied = item.kind in _PRODUCED and not is_filler(item.value)
        turn += replied and not produced
        produced = replied
        yield Item(kind=item.kind, turn=turn, id=item.id, name=item.name, value=item.value)


def _response_item(raw: dict[str, Any]) -> Item:
    kind = str(raw.get("type", "message"))
    if kind in _CALLS:
        value = _parsed(raw.get(_CALLS[kind]))
        return Item(kind="call", turn=0, id=str(raw.get("call_id")), name=str(raw.get("name", kind)), value=value)
    if kind.endswith("_output"):
        output = raw.get("output")
        text = output if isinstance(output, str) else _text(output) or json.dumps(output)
        return Item(kind="result", turn=0, id=str(raw.get("call_id")), value=text)
    if kind == "reasoning":
        return Item(kind="reason", turn=0, value=_text(raw.get("summary")))
    return Item(kind=_ROLES.get(raw.get("role"), "system"), turn=0, value=_text(raw.get("content")))


def _gemini(body: dict[str, Any]) -> Iterator[Item]:
    """Calls without ids are known by name and position, in their reply."""
    instruction = body.get("systemInstruction")
    if isinstance(instruction, dict):
        yield Item(kind="system", turn=0, value=_text(instruction.get("parts")))
    turn = 0
    for content in _listed(body.get("contents")):
        role: Kind = "assistant" if content.get("role") == "model" else "user"
        parts = _listed(content.get("parts"))
        turn += role == "assistant" and not all(is_filler(part.get("text")) for part in parts)
        seen: Counter[str] = Counter()
        for part in parts:
            yield _part(part, turn, role, seen)


def _part(part: dict[str, Any], turn: int, role: Kind, seen: Counter[str]) -> Item:
    call = part.get("functionCall") or part.get("functionResponse")
    if not isinstance(call, dict):
        return Item(kind="reason" if part.get("thought") else role, turn=turn, value=part.get("text"))
    name = str(call.get("name"))
    seen[name] += 1
    known: dict[str, Any] = {"turn": turn, "id": str(call.get("id") or f"{turn}-{name}-{seen[name]}"), "name": name}
    if "functionCall" in part:
        return Item(kind="call", value=call.get("args"), **known)
    told = call.get("response")
    only = told.get("output", told.get("error")) if isinstance(told, dict) and len(told) == 1 else None
    failed = isinstance(told, dict) and "error" in told
    return Item(kind="result", value=only if isinstance(only, str) else json.dumps(told), error=failed, **known)
