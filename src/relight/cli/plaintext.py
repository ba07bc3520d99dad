"""Text made inert, and measured in terminal cells. Everything that is printed goes through `clean`.

Names, prompts, replies, tool output and error texts come from agents and from the people they read, so they may hold
anything: escape sequences that retitle or overwrite the terminal, C1 codes that some terminals obey, bidirectional
marks that make a line read differently from what it is, invisible characters. Whatever is not printable is shown as
its escape. `clean` is idempotent, so layout may clean before it measures and the sink cleans again.
"""

from __future__ import annotations

import unicodedata
from typing import Final

_JOINERS: Final = frozenset("\u200c\u200d")  # wanted by Persian, Indic scripts and emoji; they move nothing
_WIDE: Final = frozenset("WF")
_MARKS_IN_A_ROW: Final = 4
_WORTH_FILLING: Final = 8


def clean(text: str) -> str:
    """One line in which every character is printable."""
    if text.isprintable() and text.isascii():
        return text
    shown, marks = [], 0
    for character in text:
        marks = marks + 1 if unicodedata.combining(character) else 0
        if marks <= _MARKS_IN_A_ROW:  # a tower of marks would paint over the lines above
            shown.append(_shown(character))
    return "".join(shown)


def _shown(character: str) -> str:
    if character.isprintable() or character in _JOINERS:
        return character
    if unicodedata.category(character) == "Zs":
        return " "
    return character.encode("unicode_escape", "backslashreplace").decode("ascii")


def one_line(text: str) -> str:
    """All of it on one line: runs of white space become one space, the rest is made inert."""
    return clean(" ".join(text.split()))


def block(text: str, *, most: int) -> list[str]:
    """The first lines of a longer text, inert; the last line says how many are left out."""
    lines = [clean(line.expandtabs(4)) for line in text.splitlines()]
    if len(lines) <= most:
        return lines
    return [*lines[: most - 1], f"… {len(lines) - most + 1} more lines"]


def cells(text: str) -> int:
    """How many columns a cleaned text takes."""
    return len(text) if text.isascii() else sum(map(_cells, text))


def _cells(character: str) -> int:
    if character in _JOINERS or unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in _WIDE else 1


def cut(text: str, width: int, *, ellipsis: str = "…") -> str:
    """At most `width` cells of a cleaned text; what is cut ends in an ellipsis."""
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
    """A cleaned text in lines of at most `width` cells, broken at spaces, within a word only where it must be."""
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
    """A cleaned text in lines of at most `width` cells, every character of it: for text whose spaces mean something."""
    return _pieces(text, max(width, 8))


def _pieces(word: str, width: int) -> list[str]:
    pieces = [""]
    for character in word:
        if cells(pieces[-1]) + _cells(character) > width:
            pieces.append("")
        pieces[-1] += character
    return pieces
