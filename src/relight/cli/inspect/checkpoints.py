"""`relight checkpoints`: list the checkpoints of a session."""

from __future__ import annotations

from typing import Final

import click

from relight.cli.app.context import CliContext, pass_context
from relight.cli.app.verb import json_flag, ref_argument, verb
from relight.cli.render.style import Part, Span
from relight.cli.render.table import Column, table
from relight.history.documents import checkpoint_document
from relight.text.format import age, seconds_between, size

_COLUMNS: Final = [
    Column("REF"),
    Column("KIND", drop=4),
    Column("LABEL", least=8),
    Column("FILES", drop=6),
    Column("AGE", right=True, drop=5),
    Column("TURNS", right=True, drop=2),
    Column("MESSAGES", right=True, drop=3),
    Column("SIZE", right=True, drop=1),
]


@verb("checkpoints", ("checkpoints fix-login", "all, oldest first"), ("checkpoints fix-login --labelled", "named ones"))
@ref_argument()
@click.option("--labelled", is_flag=True, help="Only those with a label.")
@json_flag
@pass_context
def checkpoints(cli: CliContext, ref: str, labelled: bool, as_json: bool) -> int:
    """List the checkpoints of a session; every step is one. FILES marks steps with a snapshot."""
    console, now = cli.console, cli.now()
    with cli.opened() as rl:
        name = rl.sessions.get(ref).title
        found = [one for one in rl.history.checkpoints(ref) if one.label or not labelled]
    if as_json:
        console.document([checkpoint_document(one) for one in found])
        return 0
    if not console.out.table:
        for one in found:
            counts = (one.turns, one.message_count, one.size_bytes)
            console.row((one.id, one.kind, one.label, one.created_at, *counts, one.snapshot))
        return 0
    rows: list[list[Part]] = [
        [
            Span(f"@{one.seq}", "ref"),
            one.kind,
            Span(one.label or "", "bold"),
            "✓" if one.snapshot else "",
            Span(age(seconds_between(one.created_at, now)), "dim"),
            str(one.turns),
            str(one.message_count),
            Span(size(one.size_bytes), "dim"),
        ]
        for one in found
    ]
    console.write(table(_COLUMNS, rows, console.out))
    if found:
        console.next(("show one", f"relight show {name}@{found[-1].seq}"))
    return 0
