"""Tables without borders, and blocks of facts, fitted to the width."""

from __future__ import annotations

from typing import Final, NamedTuple

from relight.cli.render.cells import cells, cut, pad, wrap
from relight.cli.render.console import printable
from relight.cli.render.style import Line, Part, Span, Style
from relight.text.facts import Fact

GAP: Final = 2
NARROW: Final = 16


class Column(NamedTuple):
    """A column. With `least` it may shrink to that width; with `drop` it may be left out, lowest number first."""

    title: str
    right: bool = False
    least: int | None = None
    drop: int | None = None


def table(columns: list[Column], rows: list[list[Part]], style: Style, *, header: bool = True) -> list[Line]:
    """Lay out rows; a row of one part is a heading. Columns shrink first, then some are dropped, until it fits."""
    spans = [[_span(part, style) for part in row] for row in rows]
    full = [row for row in spans if len(row) == len(columns)]
    shown = list(range(len(columns)))
    widths = _widths(columns, full, header)
    while sum(widths[i] for i in shown) + GAP * (len(shown) - 1) > style.width:
        excess = sum(widths[i] for i in shown) + GAP * (len(shown) - 1) - style.width
        excess = _shrink(columns, widths, shown, excess)
        if excess <= 0:
            break
        # Shrinking was not enough: drop one column, start again from the natural widths.
        dropped = min(
            (i for i in shown if columns[i].drop is not None), key=lambda i: columns[i].drop or 0, default=None
        )
        if dropped is None:
            widths[shown[-1]] = max(1, widths[shown[-1]] - excess)
            break
        shown.remove(dropped)
        widths = _widths(columns, full, header)
    lines: list[Line] = []
    if header:
        titles = [Span(column.title, "dim") for column in columns]
        lines.append(_line(titles, columns, widths, shown, style))
    for row in spans:
        lines.append(_line(row, columns, widths, shown, style) if len(row) == len(columns) else _heading(row[0], style))
    return lines


def _span(part: Part, style: Style) -> Span:
    return Span(printable(part, style)) if isinstance(part, str) else Span(printable(part.text, style), part.role)


def _heading(span: Span, style: Style) -> Line:
    return [Span(cut(span.text, style.width, ellipsis=style.ellipsis), span.role)]


def _widths(columns: list[Column], rows: list[list[Span]], header: bool) -> list[int]:
    titles = [[cells(column.title)] if header else [0] for column in columns]
    return [max(titles[i] + [cells(row[i].text) for row in rows]) for i in range(len(columns))]


def _shrink(columns: list[Column], widths: list[int], shown: list[int], excess: int) -> int:
    """Shrink the widest columns by `excess` cells; returns what could not be removed."""
    while excess > 0:
        able = [i for i in shown if (least := columns[i].least) is not None and widths[i] > least]
        if not able:
            return excess
        widest = max(able, key=lambda i: widths[i])
        widths[widest] -= 1
        excess -= 1
    return 0


def _line(row: list[Span], columns: list[Column], widths: list[int], shown: list[int], style: Style) -> Line:
    line: Line = []
    for position, i in enumerate(shown):
        text = cut(row[i].text, widths[i], ellipsis=style.ellipsis)
        last = position == len(shown) - 1
        filled = text if last and not columns[i].right else pad(text, widths[i], right=columns[i].right)
        line += [" " * GAP if position else "", Span(filled, row[i].role)]
    return line


def facts(entries: list[Fact], style: Style, *, indent: int = 2) -> list[Line]:
    """Lay out names and texts in two columns; in plain mode `name: text`."""
    lines: list[Line] = []
    widest = max((cells(printable(one.name, style)) for one in entries), default=0)
    for one in entries:
        name, text = printable(one.name, style), printable(one.text, style)
        if style.plain:
            lines.append([f"{name}: {text}" if name else text])
            continue
        room = style.width - indent - widest - GAP
        if room < NARROW:  # no room beside the names: texts go below them
            lines += [[" " * indent, Span(line, "dim")] for line in wrap(name, style.width - indent) if line]
            lines += [[" " * (indent + 4), Span(line, one.role)] for line in wrap(text, style.width - indent - 4)]
            continue
        for number, piece in enumerate(wrap(text, room)):
            label = pad(name if number == 0 else "", widest)
            lines.append([" " * indent, Span(label, "dim"), " " * GAP, Span(piece, one.role)])
    return lines
