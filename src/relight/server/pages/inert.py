"""Text on a page. Jinja escapes what HTML would obey; what a browser obeys without any markup is made inert.

Line feeds and tabs stay, because a page keeps them as they are. Nothing that is shown goes around `inert`: it is the
environment's `finalize`.
"""

from __future__ import annotations

from typing import Any, Final

from markupsafe import Markup

from relight.text.safe import JOINERS
from relight.text.safe import inert as shown

_KEPT: Final = JOINERS | frozenset("\n\t")
CUT_LINES: Final = 40
CUT_BYTES: Final = 8 * 1024


def inert(text: str) -> str:
    """The same text, its lines as they are, in which every other character only shows itself."""
    return shown(text, _KEPT)


def finalize(value: Any) -> Any:
    """What Jinja does to every value before it escapes it. Markup is ours alone: macros and includes make it."""
    if value is None:
        return ""
    if isinstance(value, Markup):
        return value
    return inert(value) if isinstance(value, str) else inert(str(value))


def preview(text: str) -> tuple[str, bool]:
    """The beginning of a long value, and whether that is less than all of it."""
    if len(text) <= CUT_BYTES and text.count("\n") < CUT_LINES:
        return text, False
    lines = text[:CUT_BYTES].split("\n")[:CUT_LINES]
    return "\n".join(lines), True
