"""Secrets in a column whose head announces them: rows of CSV, of tab-separated and Markdown tables, of databases.

A row counts only while it has as many columns as the head; a value has to look like what its column announces.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from relight.journal.redaction.secrets.assigned import announced_kind
from relight.journal.redaction.secrets.lazy_pattern import lazy_pattern
from relight.journal.redaction.secrets.spans import OPENING, Span

_NEEDS: Final = ("pass", "secret", "token", "key", "pwd")
"""in lower case; every head that announces a secret contains one of them"""
_HEAD: Final = lazy_pattern(
    r"[ \t+>-]{0,8}\|?[ ]{0,2}[\"\w][\w \".-]{0,40}"
    r"(?P<between>[,;\t|])(?:[\w \".-]{1,41}(?P=between)){0,30}[\w \".-]{0,41}(?P=between)?\r?$"
)
_RULE: Final = lazy_pattern(r"[\s|+:-]*$")
_ROWS: Final = 200
_HEAD_CHARS: Final = 1000
_MIN_COLUMNS: Final = 2
_LINE_CHARS: Final = 4096


def spans(text: str, lower: str) -> Iterator[Span]:
    """The values below every head that announces a secret."""
    if "\n" not in text:
        return
    for need in _NEEDS:
        offset = lower.find(need)
        while offset >= 0:
            start, end = text.rfind("\n", 0, offset) + 1, text.find("\n", offset)
            if end < 0:
                break
            if end - start <= _HEAD_CHARS and (head := _HEAD.fullmatch(text, start, end)) is not None:
                found, end = _below(text, head)
                yield from found
            offset = lower.find(need, end)


def _below(text: str, head: re.Match[str]) -> tuple[list[Span], int]:
    """The secrets in the rows below a head, and where the last of these rows ends: they are not searched for heads."""
    between, found = head["between"], list[Span]()
    names = [name.strip(' "\t\r+>') for name in head[0].split(between)]
    if sum(map(bool, names)) < _MIN_COLUMNS or not any(map(_announces, names)):
        return found, head.end()
    start = head.end() + 1
    for _ in range(_ROWS):
        end = text.find("\n", start, start + _LINE_CHARS)
        row = text[start : end if end >= 0 else start + _LINE_CHARS]
        cells = row.split(between)
        if not (between == "|" and _RULE.match(row)) or not row.strip():
            if len(cells) != len(names):
                break
            found += _secrets_of(cells, names, start)
        if end < 0:
            break
        start = end + 1
    return found, start - 1


def _announces(name: str) -> bool:
    return announced_kind(name, "q7Rt2LmX9vKp4ZsB8nWd1Yh6") is not None


def _secrets_of(cells: list[str], names: list[str], start: int) -> Iterator[Span]:
    for name, cell in zip(names, cells, strict=True):
        value = cell.strip(' "\r')
        if value and OPENING not in value and (kind := announced_kind(name, value)) is not None:
            offset = start + cell.index(value)
            yield offset, offset + len(value), kind
        start += len(cell) + 1
