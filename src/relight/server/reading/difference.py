"""Two versions of a text as the lines of a difference, in linear time beyond a bound."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any, Final

MAX_LINES: Final = 400
"""lines on either side, without what both have at their ends, up to which lines are matched one by one"""
_CONTEXT: Final = 3

Line = tuple[str, str]
"""CSS class (`add`, `del`, `ctx`, `hunk`) and text with its sign"""


def difference(before: str, after: str) -> list[Line]:
    """The changed lines with a little context; an equal text has none."""
    old, new = before.split("\n"), after.split("\n")
    head = _equal(old, new)
    tail = _equal(reversed(old[head:]), reversed(new[head:]))
    removed, added = old[head : len(old) - tail], new[head : len(new) - tail]
    lines = [("ctx", f" {line}") for line in old[max(0, head - _CONTEXT) : head]]
    lines += _matched(removed, added) if max(len(removed), len(added)) <= MAX_LINES else _whole(removed, added)
    end = len(old) - tail
    return [*lines, *(("ctx", f" {line}") for line in old[end : min(len(old), end + _CONTEXT)])]


def _equal(old: Iterable[str], new: Iterable[str]) -> int:
    """Number of equal lines at the beginning."""
    count = 0
    for one, other in zip(old, new, strict=False):
        if one != other:
            break
        count += 1
    return count


def _matched(old: list[str], new: list[str]) -> list[Line]:
    found: list[Line] = []
    for what, low, high, first, last in difflib.SequenceMatcher(None, old, new).get_opcodes():
        if what == "equal":
            found += [("ctx", f" {line}") for line in old[low:high]]
        else:
            found += _whole(old[low:high], new[first:last])
    return found


def _whole(old: list[str], new: list[str]) -> list[Line]:
    return [*(("del", f"-{line}") for line in old), *(("add", f"+{line}") for line in new)]


def patch_lines(text: str) -> list[Line]:
    """The lines of a patch, unified or in the form of Codex, by their first character."""
    kinds = {"+": "add", "-": "del", "@": "hunk", "*": "hunk", "\\": "note"}
    lines = text.strip("\n").split("\n")
    return [("hunk" if line[:3] in ("---", "+++") else kinds.get(line[:1], "ctx"), line) for line in lines]


def hunk_lines(hunks: Any) -> list[Line]:
    """The lines of hunks as Claude Code reports them with the result of an edit; empty if they are not that."""
    found: list[Line] = []
    for one in hunks if isinstance(hunks, list) else ():
        if not isinstance(one, dict) or not isinstance(one.get("lines"), list):
            return []
        numbers = [one.get(key) for key in ("oldStart", "oldLines", "newStart", "newLines")]
        if not all(isinstance(number, int) for number in numbers):
            return []
        found.append(("hunk", "@@ -{},{} +{},{} @@".format(*numbers)))
        found += patch_lines("\n".join(map(str, one["lines"])))
    return found
