"""Foreign text made inert for terminals and pages: text of agents, users and files is readable and has no other effect.

It may contain escape sequences that overwrite or retitle a terminal, C1 codes that some terminals interpret, marks that
change the direction of text, invisible characters. Characters that are not printable become escapes. `inert` is
idempotent: layout applies it before measuring, and output applies it again.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence, Set
from typing import Final

JOINERS: Final = frozenset("\u200c\u200d")
"""needed by Persian, Indic scripts and emoji; they do not move the cursor"""
_MARKS_IN_A_ROW: Final = 4
_MAX_PATH_LINES: Final = 20


def inert(text: str, allowed: Set[str] = JOINERS) -> str:
    """The text with every character that is not printable escaped, except those in `allowed`."""
    if text.isascii() and text.isprintable():
        return text
    characters, marks = [], 0
    for character in text:
        marks = marks + 1 if unicodedata.combining(character) else 0
        if marks <= _MARKS_IN_A_ROW:  # a stack of combining marks would overwrite the lines above
            characters.append(_escaped(character, allowed))
    return "".join(characters)


def _escaped(character: str, allowed: Set[str]) -> str:
    if character.isprintable() or character in allowed:
        return character
    if unicodedata.category(character) == "Zs":
        return " "
    return character.encode("unicode_escape", "backslashreplace").decode("ascii")


def one_line(text: str) -> str:
    """The text on one line: runs of white space become one space, the rest is made inert."""
    return inert(" ".join(text.split()))


def shortened(text: str, length: int) -> str:
    """Cut to `length` characters, with an ellipsis."""
    return text if len(text) <= length else text[: length - 1].rstrip() + "…"


def path_lines(pairs: Sequence[tuple[bytes, bytes | str]], between: str = ": ") -> list[str]:
    """One line for each path with its reason, or with a second path; at most 20, and how many more there are."""
    lines = [f"{_decoded(path) or '.'}{between}{_decoded(other)}" for path, other in pairs[:_MAX_PATH_LINES]]
    more = len(pairs) - len(lines)
    return [*lines, f"and {more} more"] if more else lines


def _decoded(path: bytes | str) -> str:
    return path.decode("utf-8", "backslashreplace") if isinstance(path, bytes) else path


_USER: Final = r"(?<=://)[^/?#]*@"
_SECRET: Final = r"(?i)([?&;][^=&;#]*(?:pass|secret|token|key|auth)[^=&;#]*=)[^&;#]*"


def safe_address(url: str) -> str:
    """A store's address for logs and messages: a password before the host or in the query is replaced by `***`."""
    # Everything before the last @ of the authority: a password may itself contain @ or :.
    found = re.search(_USER, url)
    if found is not None:
        user, has_password, _ = found[0].rstrip("@").partition(":")
        url = url[: found.start()] + (f"{user}:***@" if has_password else found[0]) + url[found.end() :]
    return re.sub(_SECRET, r"\1***", url)
