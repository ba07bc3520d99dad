"""Statuses on the command line."""

from __future__ import annotations

from typing import Final

from relight.cli.render.style import Span
from relight.text.format import GLYPHS
from relight.values.status import Status

_ASCII_QUEUED: Final = "."


def status_word(status: Status, *, mark: str = "", unicode: bool = True) -> Span:
    """Glyph and word of a status; `mark` is appended, such as `!` for quiet."""
    glyph, role = GLYPHS[status]
    glyph = _ASCII_QUEUED if glyph == "…" and not unicode else glyph
    return Span(f"{glyph} {status}{' ' + mark if mark else ''}", role)
