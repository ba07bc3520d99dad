"""The conversation of a LangGraph thread, read from the records that its saver stores with the steps.

The saver stores channels and no conversation. By convention there is one in the channel `messages`: a list of LangChain
messages, stored as what each checkpoint adds to the one before (frameworks/langgraph/records.py). Here it is converted
to Chat Completions for display; nothing is stored twice. Total: other records yield no messages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

from relight.journal.formats.content import ERROR_MARK, json_text, text_of
from relight.journal.formats.format import ProviderDict

AGENT: Final = "langgraph"
NEW: Final = -1
"""instead of an index: a new element"""
_CHANNEL: Final = "messages"
_ROLES: Final = (
    ("AI", "assistant"),
    ("Human", "user"),
    ("System", "system"),
    ("Tool", "tool"),
    ("Function", "function"),
)
_CALLS: Final = frozenset({"tool_use", "tool_call", "function_call", "input_json_delta"})
"""blocks of a call, which the message also lists beside its content"""
_ODD: Final = (KeyError, TypeError, ValueError, AttributeError, IndexError)
_T = TypeVar("_T")


def put_together(elements: list[_T], *, keep: int, then: Sequence[Sequence[int]], add: list[_T], size: int) -> list[_T]:
    """The list that results from its predecessor, which is consumed. ValueError if they do not fit."""
    if len(elements) < keep:
        raise ValueError("its predecessor is shorter")
    used = 0
    if then:
        before, elements = elements, elements[:keep]
        for start, count in then:
            if start == NEW:
                elements += add[used : used + count]
                used += count
            else:
                elements += before[start : start + count]
    else:
        del elements[keep:]
    elements += add[used:]
    if len(elements) != size:
        raise ValueError("its predecessor is another list")
    return elements


def spoken(record: Any) -> list[ProviderDict]:
    """The messages that a step's record adds to the conversation."""
    try:
        if record["kind"] != "put" or record.get("ns"):
            return []
        part = record["lists"][_CHANNEL]
        return [said for one in part.get("add", ())[part.get("old", 0) :] if (said := _said(one)) is not None]
    except _ODD:
        return []


def conversation(records: Mapping[int, Any]) -> list[ProviderDict]:
    """The conversation at the newest checkpoint, from the records on the path to it, by seq."""
    try:
        puts = [(one["id"], seq) for seq, one in records.items() if one["kind"] == "put" and not one.get("ns")]
        newest = max(puts)[1]
        at = newest if _CHANNEL in records[newest].get("lists", {}) else records[newest].get("at", {}).get(_CHANNEL, 0)
        parts: list[dict[str, Any]] = []
        last = at + 1
        while 0 < at < last:
            parts.append(records[at]["lists"][_CHANNEL])
            at, last = parts[-1].get("base", 0), at
        elements: list[Any] = []
        for part in reversed(parts):
            keep, then, add = part.get("keep", 0), part.get("then", ()), part.get("add", [])
            elements = put_together(elements, keep=keep, then=then, add=add, size=part["size"])
        return [said for one in elements if (said := _said(one)) is not None]
    except _ODD:
        return []


def _said(element: Any) -> ProviderDict | None:
    """An element of the channel as a message; None if it is none."""
    if not isinstance(element, dict):
        return None
    if element.get("$") != "message":
        return element if isinstance(element.get("role"), str) and "$" not in element else None
    fields = element["v"]
    kind = str(element["t"])
    role = next((role for begins, role in _ROLES if kind.startswith(begins)), None)
    if role is None:
        role = text_of(fields.get("role")) if kind.startswith("Chat") else ""
    if not role:
        return None
    said: ProviderDict = {"role": role, "content": fields.get("content", "")}
    if isinstance(fields.get("id"), str):
        said["id"] = fields["id"]
    if role == "tool":
        said["tool_call_id"] = text_of(fields.get("tool_call_id"))
        if fields.get("status") == "error":
            said["content"] = f"{ERROR_MARK} {json_text(said['content'])}"
    return _with_calls(said, fields) if role == "assistant" else said


def _with_calls(said: ProviderDict, fields: Mapping[str, Any]) -> ProviderDict:
    reasons = (fields.get("additional_kwargs") or {}).get("reasoning_content")
    if isinstance(reasons, str):
        said["reasoning_content"] = reasons
    calls = [
        {
            "id": text_of(one.get("id")),
            "type": "function",
            "function": {"name": text_of(one.get("name")), "arguments": json_text(one.get("args"))},
        }
        for one in fields.get("tool_calls") or ()
    ]
    if calls:
        said["tool_calls"] = calls
    if calls and isinstance(said["content"], list):
        said["content"] = [part for part in said["content"] if not _is_call(part)]
    return said


def _is_call(part: Any) -> bool:
    return isinstance(part, dict) and text_of(part.get("type")) in _CALLS
