"""Terminal output as a person saw it: colours as classes, overwritten text gone, every other escape sequence removed.

One pass over the text, without a screen: cursor movements are removed, not obeyed. What remains is made inert.
"""

from __future__ import annotations

import re
from typing import Final

from markupsafe import Markup, escape

from relight.server.reading.inert import inert

# Each alternative is linear: no repetition inside a repetition, and the two strings end at the first terminator.
_ESCAPES: Final = re.compile(
    r"\x1b\[([0-?]*)[ -/]*([@-~])"  # CSI
    r"|\x1b[\]PX^_][^\x07\x1b]{0,2000}(?:\x07|\x1b\\)?"  # OSC, DCS, SOS, PM, APC
    r"|\x1b[ -/]*[0-~]?"
    r"|\x9b([0-?]*)[ -/]*([@-~])"
)
_COLOURS: Final = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")


def terminal(text: str) -> Markup:
    """The text as HTML without a block around it."""
    made, begin, style = [], 0, ""
    text = "\n".join(map(_overwritten, text.replace("\r\n", "\n").split("\n")))
    for found in _ESCAPES.finditer(text):
        made.append(_styled(text[begin : found.start()], style))
        begin = found.end()
        if (found[2] or found[4]) == "m":
            style = _style(style, found[1] or found[3] or "")
    made.append(_styled(text[begin:], style))
    return Markup("").join(made)


def plain(text: str) -> str:
    """The text without escape sequences, for one line."""
    return _ESCAPES.sub("", text)


def _overwritten(line: str) -> str:
    """What a line shows after carriage returns and backspaces: of a progress bar, its last state."""
    if "\r" in line:
        line = next((part for part in reversed(line.split("\r")) if part), "")
    if "\b" not in line:
        return line
    kept: list[str] = []
    for character in line:
        if character != "\b":
            kept.append(character)
        elif kept:
            kept.pop()
    return "".join(kept)


def _styled(text: str, style: str) -> Markup:
    shown = escape(inert(text))
    return Markup('<span class="{}">{}</span>').format(style, shown) if style and text else shown


def _style(style: str, codes: str) -> str:
    """The classes after a colour sequence: `t-red`, `t-bold`."""
    names = style.split()
    numbers = [int(code) if code.isdigit() and len(code) < 4 else 0 for code in codes.split(";")][:16]
    if numbers[0] in (38, 48):  # 256 colours and RGB: not shown
        return style
    for number in numbers:
        if number == 0:
            names = []
        elif number == 1:
            names = [*(one for one in names if one != "t-bold"), "t-bold"]
        elif number == 22:
            names = [one for one in names if one != "t-bold"]
        elif 30 <= number <= 37 or 90 <= number <= 97:
            names = [*(one for one in names if one == "t-bold"), f"t-{_COLOURS[number % 10]}"]
        elif number == 39:
            names = [one for one in names if one == "t-bold"]
    return " ".join(names)
