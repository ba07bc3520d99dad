"""Text measured, cut and wrapped in terminal cells. Input is already inert (relight/text/safe.py)."""

from __future__ import annotations

import unicodedata
from typing import Final

from relight.text.safe import JOINERS, inert

_WIDE: Final = frozenset("WF")
_MIN_FILL: Final = 8


def block(text: str, *, max_lines: int) -> list[str]:
    """The first lines of a longer text, inert; the last line says how many are left out."""
    lines = [inert(line.expandtabs(4)) for line in text.splitlines()]
    if len(lines) <= max_lines:
        return lines
    return [*lines[: max_lines - 1], f"… {len(lines) - max_lines + 1} more lines"]


def cells(text: str) -> int:
    """Width of an inert text in terminal columns."""
    return len(text) if text.isascii() else sum(map(_cells, text))


def _cells(character: str) -> int:
    # Joiners and combining marks take no cell; East Asian wide and full-width characters take two.
    if character in JOINERS or unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in _WIDE else 1


def cut(text: str, width: int, *, ellipsis: str = "…") -> str:
    """At most `width` cells of an inert text; what is cut ends in an ellipsis."""
    if cells(text) <= width:
        return text
    room, taken = max(0, width - len(ellipsis)), []
    for character in text:
        room -= _cells(character)
        if room < 0:
            break
        taken.append(character)
    return "".join(taken).rstrip() + ellipsis[:width]


def pad(text: str, width: int, *, right: bool = False) -> str:
    """Pad with spaces to `width` cells, on the left if `right`-aligned."""
    space = " " * max(0, width - cells(text))
    return space + text if right else text + space


def wrap(text: str, width: int) -> list[str]:
    """An inert text in lines of at most `width` cells, broken at spaces, within a word only where it must be."""
    width, lines, line = max(width, 8), [], ""
    for word in text.split(" "):
        if line and cells(line) + 1 + cells(word) <= width:
            line += " " + word
            continue
        fills = line and cells(word) > width and width - cells(line) > _MIN_FILL
        if line and not fills:
            lines.append(line)
        # A word longer than a line is broken in any case, so it fills the current line first.
        *whole, line = _pieces(f"{line} {word}" if fills else word, width)
        lines += whole
    return [*lines, line] if line or not lines else lines


def broken(text: str, width: int) -> list[str]:
    """Break at exactly `width` cells and keep every character, for text whose spaces matter."""
    return _pieces(text, max(width, 8))


def _pieces(word: str, width: int) -> list[str]:
    pieces = [""]
    for character in word:
        if cells(pieces[-1]) + _cells(character) > width:
            pieces.append("")
        pieces[-1] += character
    return pieces
