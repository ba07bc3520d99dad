"""Makes text harmless for a page: control and bidirectional characters are made visible; Jinja escapes the markup.

Every value passes `finalize`, which is set in the Jinja environment. Line feeds and tabs are kept.
"""

from __future__ import annotations

from typing import Any, Final

from markupsafe import Markup

from relight.text.safe import JOINERS
from relight.text.safe import inert as make_visible

_KEPT: Final = JOINERS | frozenset("\n\t")
CUT_LINES: Final = 40
CUT_BYTES: Final = 8 * 1024


def inert(text: str) -> str:
    """The text with every control and bidirectional character made visible, except line feeds and tabs."""
    return make_visible(text, _KEPT)


def finalize(value: Any) -> Any:
    """Applied by Jinja to every value before escaping. Markup comes only from our own macros and includes."""
    if value is None:
        return ""
    if isinstance(value, Markup):
        return value
    return inert(value) if isinstance(value, str) else inert(str(value))


def preview(text: str, lines: int = CUT_LINES, size: int = CUT_BYTES) -> tuple[str, bool]:
    """The beginning of a long text, and whether it was cut."""
    if len(text) <= size and text.count("\n") < lines:
        return text, False
    return "\n".join(text[:size].split("\n")[:lines]), True
