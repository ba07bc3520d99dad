"""Attempts in a row that went the same way, as one line that opens. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from relight.history.narration import Row

FEWEST: Final = 3
"""attempts alike that are folded"""
_NUMBER: Final = re.compile(r"\d+")


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Rows that are shown one after the other, or folded."""

    rows: list[Row]
    attempts: int = 0
    """how many attempts alike they are; 0: not folded"""

    @property
    def text(self) -> str:
        """What each of the attempts came to."""
        return " · ".join(row.text for row in self.rows[-(len(self.rows) // self.attempts) :] if not row.rule)


def groups_of(rows: Sequence[Row]) -> list[Group]:
    """All rows, in order; the newest attempt is never folded.

    Numbers in a text do not count: a seq or a pid differs from attempt to attempt."""
    attempts: list[list[Row]] = []
    for row in rows:
        if row.rule or not attempts:
            attempts.append([])
        attempts[-1].append(row)
    groups: list[Group] = []
    first = 0
    for number in range(1, len(attempts) + 1):
        if number < len(attempts) - 1 and _way(attempts[number]) == _way(attempts[first]):
            continue
        run = [row for attempt in attempts[first:number] for row in attempt]
        count = number - first if number - first >= FEWEST and run[0].rule else 0
        groups.append(Group(rows=run, attempts=count))
        first = number
    return groups


def _way(attempt: Sequence[Row]) -> list[tuple[str, str, str, list[str]]]:
    return [(row.word, _NUMBER.sub("", row.text), row.mark, [call.text for call in row.calls]) for row in attempt]
