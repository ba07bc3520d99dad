"""Edit the text of a message, in every provider's own form; everything else of the message stays as it is. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

from relight.errors import UsageError

_LISTS = ("content", "parts", "output")


def text_of_message(message: dict[str, Any]) -> str | None:
    """The text that `with_text` would replace; None if the message has none."""
    place = _place(message)
    return place[0][place[1]] if place is not None else None


def with_text(message: dict[str, Any], text: str) -> dict[str, Any]:
    """The message with another text. UsageError if it has none: an image, a call alone."""
    copied: dict[str, Any] = msgspec.msgpack.decode(msgspec.msgpack.encode(message))
    place = _place(copied)
    if place is None:
        raise UsageError(
            "the message has no text that could be edited", hints=["fork at a checkpoint whose last message has one"]
        )
    place[0][place[1]] = text
    return copied


def _place(message: Any) -> tuple[dict[str, Any], str] | None:
    """The dict and key that hold the first text: of the message itself, of a block, or of a result in a block."""
    if not isinstance(message, dict):
        return None
    if isinstance(message.get("text"), str):
        return message, "text"
    for key in _LISTS:
        value = message.get(key)
        if isinstance(value, str):
            return message, key
        for block in value if isinstance(value, list) else ():
            if (found := _place(block)) is not None:
                return found
    return _place(message.get("toolResult"))
