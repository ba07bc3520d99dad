"""Rows of a journal's narration (history/narration.py) on a terminal and as fields for a program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from relight.cli.render.cells import cells, cut, pad
from relight.cli.render.console import printable
from relight.cli.render.style import Line, Span, Style
from relight.history.narration import Narrator, Row
from relight.text.format import clock, duration, money

_DETAIL_LINES: Final = 2
_WORD: Final = 7


def finished(rows: Sequence[Row]) -> list[Row]:
    """The rows without those of calls that begin: a call is shown when it ends."""
    return [row for row in rows if not row.begins]


def open_rows(narrator: Narrator, seq: int, *, doubtful: bool) -> list[Row]:
    """The calls that have begun and not ended, as rows at a seq."""
    mark, text = ("!", "in doubt") if doubtful else ("…", "running")
    return [
        msgspec.structs.replace(row, seq=seq, text=f"{row.line}: {text}", effect="", mark=mark, notable=doubtful)
        for row in narrator.open()
    ]


def lines_of(row: Row, style: Style, *, seq_width: int, seconds: bool = True) -> list[Line]:
    """A row on a terminal, with its details below it."""
    if row.rule:
        text = cut(printable(f"-- {row.text}, {clock(row.at)} --", style), style.width, ellipsis=style.ellipsis)
        return [[Span(text, "warn")]]
    moment = clock(row.at) if seconds else clock(row.at)[:5]
    left = f"{pad('@' + str(row.seq), seq_width)}  {moment}  {pad(row.word, _WORD)} "
    mark = printable(row.mark, style)
    right = "".join(
        (
            pad(mark, 2),
            pad(duration(row.seconds) if row.seconds is not None else "", 8, right=True),
            pad(money(row.cost) if row.cost is not None else "", 7, right=True),
        )
    )
    right = right.rstrip() if style.width >= 60 else mark
    room = style.width - len(left) - cells(right) - 1
    text = cut(printable(row.line, style), room, ellipsis=style.ellipsis)
    space = " " * (style.width - len(left) - cells(text) - cells(right)) if style.terminal else "  "
    head: Line = [Span(left, "dim"), text, space if right else "", Span(right, row.role)]
    return [head, *_detail_lines(row, style, len(left))]


def _detail_lines(row: Row, style: Style, indent: int) -> list[Line]:
    indent = indent if style.width >= 60 else 4
    room = style.width - indent
    lines = row.detail[:_DETAIL_LINES]
    return [[" " * indent, Span(cut(printable(line, style), room, ellipsis=style.ellipsis), "dim")] for line in lines]


def fields_of(row: Row) -> Sequence[Any]:
    """A row as fields for a program."""
    return (row.seq, row.at, row.word, row.line, row.mark, row.seconds, row.cost, " ".join(row.detail[:_DETAIL_LINES]))
