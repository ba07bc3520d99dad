"""Text measured and cut in terminal cells. Everything that is printed was made inert before (relight/text/safe.py)."""

from __future__ import annotations

import unicodedata
from typing import Final

from relight.text.safe import JOINERS, inert

_WIDE: Final = frozenset("WF")
_WORTH_FILLING: Final = 8


def block(text: str, *, most: int) -> list[str]:
    """The first lines of a longer text, inert; the last line says how many are left out."""
    lines = [inert(line.expandtabs(4)) for line in text.splitlines()]
    if len(lines) <= most:
        return lines
    return [*lines[: most - 1], f"… {len(lines) - most + 1} more lines"]


def cells(text: str) -> int:
    """How many columns an inert text takes."""
    return len(text) if text.isascii() else sum(map(_cells, text))


def _cells(character: str) -> int:
    if character in JOINERS or unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in _WIDE else 1


def cut(text: str, width: int, *, ellipsis: str = "…") -> str:
    """At most `width` cells of an inert text; what is cut ends in an ellipsis."""
    if cells(text) <= width:
        return text
    room, kept = max(0, width - len(ellipsis)), []
    for character in text:
        room -= _cells(character)
        if room < 0:
            break
        kept.append(character)
    return "".join(kept).rstrip() + ellipsis[:width]


def pad(text: str, width: int, *, right: bool = False) -> str:
    """Filled with spaces to `width` cells."""
    space = " " * max(0, width - cells(text))
    return space + text if right else text + space


def wrap(text: str, width: int) -> list[str]:
    """An inert text in lines of at most `width` cells, broken at spaces, within a word only where it must be."""
    width, lines, line = max(width, 8), [], ""
    for word in text.split(" "):
        if line and cells(line) + 1 + cells(word) <= width:
            line += " " + word
            continue
        fills = line and cells(word) > width and width - cells(line) > _WORTH_FILLING
        if line and not fills:
            lines.append(line)
        *whole, line = _pieces(f"{line} {word}" if fills else word, width)  # broken anyway: fill the line first
        lines += whole
    return [*lines, line] if line or not lines else lines


def broken(text: str, width: int) -> list[str]:
    """An inert text in lines of at most `width` cells, every character of it: for text whose spaces mean something."""
    return _pieces(text, max(width, 8))


def _pieces(word: str, width: int) -> list[str]:
    pieces = [""]
    for character in word:
        if cells(pieces[-1]) + _cells(character) > width:
            pieces.append("")
        pieces[-1] += character
    return pieces
