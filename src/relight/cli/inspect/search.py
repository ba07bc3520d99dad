"""`relight search`: find text in what any session says."""

from __future__ import annotations

from functools import partial
from typing import Final

import click

from relight.cli.app.context import CliContext, pass_context
from relight.cli.app.verb import RefType, json_flag, verb
from relight.cli.inspect.list import since_us
from relight.cli.render.style import Part, Span
from relight.cli.render.table import Column, table
from relight.history.search import search_document
from relight.text.format import age, seconds_between
from relight.text.safe import one_line

_SECONDS: Final = 10.0
"""how long steps are added to the index before the answer; the next search continues"""
_COLUMNS: Final = [Column("REF"), Column("KIND", drop=2), Column("AGE", right=True, drop=1), Column("TEXT", least=20)]


@verb(
    "search",
    ("search deploy frankfurt", "both words, in any session"),
    ("search '\"connection refused\" retr*'", "a phrase, and the beginning of a word"),
)
@click.argument("text", nargs=-1, required=True)
@click.option("--session", type=RefType(), metavar="REF", help="Only in this session, with what it inherited.")
@click.option("--since", metavar="AGE", help="Only steps within AGE: 30m, 8h, 2d, 1w.")
@click.option(
    "--most", type=click.IntRange(1, 1000), default=20, show_default=True, metavar="N", help="At most N hits."
)
@json_flag
@pass_context
def search(
    cli: CliContext, text: tuple[str, ...], session: str | None, since: str | None, most: int, as_json: bool
) -> int:
    """Find what any session said, newest first. Found are steps whose messages, tool calls, results, questions or
    errors have all these words, and sessions by name, task or label. "In quotes": in this order; ending in *: the
    beginning of a word."""
    console, now = cli.console, cli.now()
    with cli.opened() as rl:
        look = partial(
            rl.sessions.search,
            " ".join(text),
            session=session,
            since_us=since_us(since, now),
            most=most,
            seconds=_SECONDS,
            progress=lambda left: console.status(f"{left:,} steps left to index"),
        )
        found = look()
        while not found.hits and found.next is not None:  # each search is bounded: this one goes through older steps
            found = look(before=found.next)
    console.status("")
    if as_json:
        console.document(search_document(found))
        return 0
    if console.out.table:
        rows: list[list[Part]] = [
            [
                Span(hit.ref, "ref"),
                f"{hit.kind} (rewound)" if hit.abandoned else hit.kind,
                Span(age(seconds_between(hit.at, now)), "dim"),
                one_line(hit.text),
            ]
            for hit in found.hits
        ]
        console.write(table(_COLUMNS, rows, console.out))
    else:
        for hit in found.hits:
            console.row((hit.ref, hit.session, hit.seq, hit.kind, hit.at, int(hit.abandoned), one_line(hit.text)))
    if not found.hits:
        console.say("Nothing found.")
    if found.note:
        console.say(found.note)
    if found.next is not None:
        console.say(Span(f"There may be more: --most {most * 5}", "dim"))
    if found.hits:
        console.next(("show one", f"relight show {found.hits[0].ref}"))
    return 0
