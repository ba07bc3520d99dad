"""The last line the agent wrote, shown in lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from relight.journal.conversation.reply_ends import EMPTY_REPLY
from relight.journal.formats.format import Format
from relight.values.view import Placeholder, Text

LENGTH: Final = 120


def last_reply_line(format: Format, messages: Sequence[dict[str, Any]]) -> str | None:
    """The first line of the newest text that the model produced in these messages; None if there is none.

    Called on every commit, so it reads only the one field where most formats hold their text. Only for a line of an
    agent that holds it elsewhere a view is built.
    """
    for message in reversed(messages):
        content = message.get("content") or message.get("parts") or _inside(message).get("content")
        if not (content or format.native) or not format.is_assistant(message):
            continue
        blocks = content if isinstance(content, list) else [{"text": content}] if content else _viewed(format, message)
        for block in blocks:
            text = block.get("text") if isinstance(block, dict) else None
            if isinstance(text, str) and (line := text[: 4 * LENGTH].strip()):
                return line.split("\n", 1)[0][:LENGTH]
    return None


def _viewed(format: Format, message: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"text": block.text} for one in format.read([message]) for block in one.blocks if isinstance(block, Text)]


def _inside(message: dict[str, Any]) -> dict[str, Any]:
    """The message inside a line of a native transcript; empty for other formats."""
    inner = message.get("message") or message.get("payload")
    return inner if isinstance(inner, dict) else {}


def reply_text(format: Format, messages: Sequence[dict[str, Any]]) -> str:
    """All text of one reply; nothing if it was empty. Texts that follow each other directly are one: providers cut a
    sentence in pieces where a part of it cites a source. Others are apart."""
    texts: list[str] = []
    for view in format.read(list(messages)):
        follows = False
        for block in view.blocks if view.role == "assistant" else ():
            if not isinstance(block, Text) or isinstance(block, Placeholder):
                follows = False
            elif block.text != EMPTY_REPLY:
                texts.append((texts.pop() if follows else "") + block.text)
                follows = True
    return "\n".join(texts)
