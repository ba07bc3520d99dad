"""`relight import-langgraph`: copy threads from the databases of LangGraph's own savers."""

from __future__ import annotations

import click
import msgspec

from relight.cli.app.context import CliContext, pass_context
from relight.cli.app.verb import json_flag, verb
from relight.text.format import count

_REFUSED = 4


@verb(
    "import-langgraph",
    ("import-langgraph checkpoints.sqlite", "every thread of an SqliteSaver, verified after copying"),
    ("import-langgraph postgresql://host/db --thread 42", "one thread of a PostgresSaver"),
)
@click.argument("url", metavar="URL")
@click.option("--thread", "threads", multiple=True, metavar="ID", help="Only this thread; may be repeated.")
@click.option("--dry-run", is_flag=True, help="Read and convert everything, write nothing.")
@json_flag
@pass_context
def import_langgraph(cli: CliContext, url: str, threads: tuple[str, ...], dry_run: bool, as_json: bool) -> int:
    """Copy threads of LangGraph's own savers. URL is a path for SqliteSaver, an address for PostgresSaver.

    The stored bytes are read as data: no stored type is constructed, no module imported. A thread is copied as a
    whole or not at all; one that exists here is skipped, so an interrupted import can be run again.
    """
    from relight.frameworks.langgraph import need_langgraph

    need_langgraph("relight import-langgraph")
    from relight.frameworks.langgraph.importing import Report, import_threads

    console = cli.console
    report = None
    with cli.opened(create=True) as rl:
        for one in import_threads(rl, url, threads=threads, dry_run=dry_run):
            if isinstance(one, Report):
                report = one
            elif one.outcome == "refused":
                console.say(f"{one.thread}: refused, {one.why}")
            elif not as_json:
                console.row((one.thread, one.outcome, one.checkpoints, one.writes))
    assert report is not None
    if as_json:
        console.document(msgspec.to_builtins(report))
    for name, times in sorted(report.types.items()):
        console.say(
            f"{name} ({times}x) must be registered before it can be loaded: saver.register({name.rpartition('.')[2]})"
        )
    copied = "would be copied" if dry_run else "copied and verified"
    console.say(
        f"{count(report.count('copied'), 'thread')} {copied}, {report.count('here')} already here, "
        f"{report.count('refused')} refused"
    )
    return _REFUSED if report.count("refused") else 0
