"""A found secret is a span of text and its name; replacing spans is the same for every detector."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

Span = tuple[int, int, str]
"""start, end, name"""
OPENING: Final = "[redacted:"


def mark(name: str) -> str:
    """The replacement text of a secret."""
    return f"{OPENING}{name}]"


def replaced(text: str, spans: Iterable[Span]) -> str:
    """The text with its spans replaced; if two overlap, the name of the earlier one is told, and neither is left."""
    parts, done = [], 0
    for start, end, name in sorted(spans, key=lambda span: (span[0], -span[1])):
        if start >= done:
            parts += [text[done:start], mark(name)]
        done = max(done, end)
    return "".join((*parts, text[done:])) if parts else text


def lowered(text: str) -> str:
    """Lower case, character by character, so that positions are the same in both texts."""
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    return "".join(one.lower() if one.isascii() else one for one in text)
