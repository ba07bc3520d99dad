"""Text made inert, for a terminal and for a page: what an agent, a user or a file said can be read, and can do nothing.

It may hold anything: escape sequences that retitle or overwrite a terminal, C1 codes that some obey, marks that turn
the direction of a line, invisible characters. Whatever is not printable is shown as its escape. `inert` is idempotent,
so layout may use it before it measures, and the sink uses it again.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Set
from typing import Final

JOINERS: Final = frozenset("\u200c\u200d")
"""wanted by Persian, Indic scripts and emoji; they move nothing"""
_MARKS_IN_A_ROW: Final = 4


def inert(text: str, kept: Set[str] = JOINERS) -> str:
    """The same text in which every character only shows itself; those that are `kept` stay though they do not print."""
    if text.isascii() and text.isprintable():
        return text
    shown, marks = [], 0
    for character in text:
        marks = marks + 1 if unicodedata.combining(character) else 0
        if marks <= _MARKS_IN_A_ROW:  # a tower of marks would paint over the lines above
            shown.append(_shown(character, kept))
    return "".join(shown)


def _shown(character: str, kept: Set[str]) -> str:
    if character.isprintable() or character in kept:
        return character
    if unicodedata.category(character) == "Zs":
        return " "
    return character.encode("unicode_escape", "backslashreplace").decode("ascii")


def one_line(text: str) -> str:
    """All of it on one line: runs of white space become one space, the rest is made inert."""
    return inert(" ".join(text.split()))


def shortened(text: str, most: int) -> str:
    """At most so many characters; what is cut ends in an ellipsis."""
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


_USER: Final = re.compile(r"(?<=://)[^/?#]*@")
_SECRET: Final = re.compile(r"([?&;][^=&;#]*(?:pass|secret|token|key|auth)[^=&;#]*=)[^&;#]*", re.IGNORECASE)


def safe_address(url: str) -> str:
    """An address of a store as it may be shown, logged or told: without a password, in front of the host or in the
    query. What stands where a password may stand goes whole."""
    found = _USER.search(url)
    if found is not None:
        user, has_password, _ = found[0].rstrip("@").partition(":")
        url = url[: found.start()] + (f"{user}:***@" if has_password else found[0]) + url[found.end() :]
    return _SECRET.sub(r"\1***", url)
