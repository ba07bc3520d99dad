"""Text made inert for a page: what an agent, a user or a file said can be read, and can do nothing.

Jinja escapes what HTML would obey. What is left are characters that a browser obeys without any markup: controls, marks
that turn the direction of a line, invisible ones. They are shown as their escapes. Line feeds and tabs stay, because a
page keeps them as they are. Nothing that is shown goes around `inert`: it is the environment's `finalize`.
"""

from __future__ import annotations

import unicodedata
from typing import Any, Final

from markupsafe import Markup

_KEPT: Final = frozenset("\n\t\u200c\u200d")
_MARKS_IN_A_ROW: Final = 4
CUT_LINES: Final = 40
CUT_BYTES: Final = 8 * 1024


def inert(text: str) -> str:
    """The same text in which every character only shows itself."""
    if text.isascii() and text.isprintable():
        return text
    shown, marks = [], 0
    for character in text:
        marks = marks + 1 if unicodedata.combining(character) else 0
        if marks <= _MARKS_IN_A_ROW:  # a tower of marks would paint over the lines above
            shown.append(_shown(character))
    return "".join(shown)


def _shown(character: str) -> str:
    if character.isprintable() or character in _KEPT:
        return character
    if unicodedata.category(character) == "Zs":
        return " "
    return character.encode("unicode_escape", "backslashreplace").decode("ascii")


def finalize(value: Any) -> Any:
    """What Jinja does to every value before it escapes it. Markup is ours alone: macros and includes make it."""
    if value is None:
        return ""
    if isinstance(value, Markup):
        return value
    return inert(value) if isinstance(value, str) else inert(str(value))


def one_line(text: str) -> str:
    """All of it on one line."""
    return inert(" ".join(text.split()))


def cut(text: str, most: int) -> str:
    """At most so many characters; what is cut ends in an ellipsis."""
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def preview(text: str) -> tuple[str, bool]:
    """The beginning of a long value, and whether that is less than all of it."""
    if len(text) <= CUT_BYTES and text.count("\n") < CUT_LINES:
        return text, False
    lines = text[:CUT_BYTES].split("\n")[:CUT_LINES]
    return "\n".join(lines), True
