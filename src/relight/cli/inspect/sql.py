"""`relight sql`: query sessions and steps."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, islice
from typing import Final

import click

from relight.cli.app.context import CliContext, pass_context
from relight.cli.app.verb import json_flag, verb
from relight.cli.render.style import Part
from relight.cli.render.table import Column, table
from relight.text.safe import one_line

_SCREEN_ROWS: Final = 1000
"""rows that are laid out as a table; more are printed as they come"""


@verb(
    "sql",
    ('sql "select name, status, cost from sessions"', "what each session cost"),
    ("sql \"select seq, text from steps('fix-login') where kind = 'result'\"", "the results of one session"),
)
@click.argument("query")
@json_flag
@pass_context
def sql(cli: CliContext, query: str, as_json: bool) -> int:
    """Query the store with SQL, read-only. There are two tables, on every kind of store: sessions, and steps, with
    bodies as JSON; steps('REF') is one session. The whole table is read where a query needs it."""
    from relight.cli.inspect.tables import query as run

    console = cli.console
    with cli.opened() as rl, run(rl, query) as (columns, rows):
        if as_json:
            keys = _keys(columns)
            console.document([dict(zip(keys, row, strict=True)) for row in rows])
            return 0
        first = list(islice(rows, _SCREEN_ROWS)) if console.out.table else []
        if first and len(first) < _SCREEN_ROWS:
            cells: list[list[Part]] = [[one_line(_shown(value)) for value in row] for row in first]
            console.write(table([Column(name.upper(), least=8) for name in columns], cells, console.out))
            return 0
        for row in chain(first, rows):
            console.row(one_line(_shown(value)) for value in row)
    return 0


def _keys(columns: Sequence[str]) -> list[str]:
    """The columns, each under a name of its own: of two of one name, a document would have one."""
    keys: list[str] = []
    for name in columns:
        others = (f"{name}:{number}" for number in range(1, len(columns)))
        keys.append(next(one for one in chain([name], others) if one not in keys))
    return keys


def _shown(value: object) -> str:
    return "" if value is None else str(value)
