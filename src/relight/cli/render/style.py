"""Output style of a stream: width, colour, character set, plain mode; computed from stream, environment and options.

Eight ANSI colours by role, never a background and never colour alone: the word is always printed. A line consists of
spans, text with a role; only the console turns roles into escape sequences, so no text can contain its own.
"""

from __future__ import annotations

import os
from typing import Final, Literal, NamedTuple, TextIO

from relight.text.format import GLYPHS
from relight.values.status import Status

Role = Literal["", "ok", "bad", "warn", "waiting", "ref", "dim", "bold"]
When = Literal["auto", "always", "never"]

DEFAULT_WIDTH: Final = 80
NARROWEST: Final = 20
SGR: Final[dict[Role, str]] = {
    "ok": "32",
    "bad": "31",
    "warn": "33",
    "waiting": "35",
    "ref": "36",
    "dim": "2",
    "bold": "1",
}
ASCII: Final = str.maketrans(
    {
        "…": "..",
        "●": "*",
        "✓": "v",
        "✗": "x",
        "†": "+",
        "·": ".",
        "→": "->",
        "×": "x",
        "└": "`",
        "─": "-",
    }
)


class Span(NamedTuple):
    """A piece of text with its colour role."""

    text: str
    role: Role = ""


Part = Span | str
Line = list[Part]


class Style(NamedTuple):
    """What a stream can display."""

    width: int = DEFAULT_WIDTH
    color: bool = False
    unicode: bool = True
    terminal: bool = False
    plain: str = ""
    """what turned plain mode on; empty if it is off"""

    @property
    def ellipsis(self) -> str:
        return "…" if self.unicode else ".."

    @property
    def table(self) -> bool:
        """Print columns? Else tabs for a program, or `name: value` lines for a screen reader."""
        return self.terminal and not self.plain


def style_of(stream: TextIO, *, color: When, plain: bool) -> Style:
    """The style of a stream."""
    terminal = _is_terminal(stream)
    why_plain = "--plain" if plain else "ACCESSIBLE" if os.environ.get("ACCESSIBLE", "0") not in ("", "0") else ""
    return Style(
        width=_width(stream, terminal),
        color=_color(color, terminal and not why_plain),
        unicode="utf" in (stream.encoding or "").lower(),
        terminal=terminal,
        plain=why_plain,
    )


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except ValueError:  # closed
        return False


def _width(stream: TextIO, terminal: bool) -> int:
    if not terminal:
        return DEFAULT_WIDTH
    asked = os.environ.get("COLUMNS", "")
    try:
        width = int(asked) if asked.isdigit() else os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        return DEFAULT_WIDTH
    return max(NARROWEST, width) if width else DEFAULT_WIDTH


def _color(color: When, terminal: bool) -> bool:
    if color != "auto":
        return color == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("CLICOLOR_FORCE", "0") not in ("", "0"):
        return True
    return terminal and os.environ.get("TERM") != "dumb"


def status_word(status: Status, *, mark: str = "", unicode: bool = True) -> Span:
    """Glyph and word of a status; `mark` is appended, such as `!` for quiet."""
    glyph, role = GLYPHS[status]
    glyph = "." if glyph == "…" and not unicode else glyph  # one cell, where an ellipsis would become ".."
    return Span(f"{glyph} {status}{' ' + mark if mark else ''}", role)
