"""The conversation as the model is sent it, from the lines of a transcript."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from tests.support.scripted_agent.transcript import Line, blocks

UNANSWERED: Final = "[The process ended while this tool was running, so its outcome is unknown.]"
"""what it says itself about a call that its transcript leaves open"""
FILLER: Final = "No response requested."
Message = dict[str, Any]


def open_calls(lines: Sequence[Line]) -> list[dict[str, Any]]:
    """The tool calls that have no result."""
    answered = {block["tool_use_id"] for line in lines for block in blocks(line, "tool_result")}
    return [block for line in lines for block in blocks(line, "tool_use") if block["id"] not in answered]


def messages_of(lines: Sequence[Line]) -> list[Message]:
    """Messages of the API: blocks of one reply together, its results right behind it. Errors are not sent."""
    found: list[Message] = []
    for line in lines:
        if line.get("isApiErrorMessage"):
            continue
        role, content = line["type"], line["message"]["content"]
        given = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
        home = _home(found, given)
        if home is not None:
            _insert(home, given)
        elif found and found[-1]["role"] == role:
            found[-1]["content"] += given
        else:
            found.append({"role": role, "content": given})
    return found


def _home(found: list[Message], given: list[dict[str, Any]]) -> Message | None:
    """The message right behind the call that a result answers, made if need be."""
    asked = next((block["tool_use_id"] for block in given if block.get("type") == "tool_result"), None)
    for location, message in enumerate(found):
        if asked is not None and any(block.get("id") == asked for block in message["content"]):
            if location + 1 == len(found):
                found.append({"role": "user", "content": []})
            return found[location + 1] if found[location + 1]["role"] == "user" else None
    return None


def _insert(home: Message, given: list[dict[str, Any]]) -> None:
    """Results stand before what else the user says."""
    location = sum(block.get("type") == "tool_result" for block in home["content"])
    home["content"][location:location] = given


def ends_in_result(lines: Sequence[Line]) -> bool:
    """Was a tool the last to speak?"""
    return bool(lines) and bool(blocks(lines[-1], "tool_result"))
