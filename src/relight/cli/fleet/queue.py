"""`relight queue`: list queues and set their limits."""

from __future__ import annotations

import click
import msgspec

from relight.cli.app.context import CliContext, pass_context
from relight.cli.app.verb import json_flag, verb
from relight.cli.render.style import Part, Span
from relight.cli.render.table import Column, table
from relight.errors import UsageError
from relight.text.format import age


@verb(
    "queue",
    ("queue list", "sessions and limits of each queue"),
    ("queue set nightly --concurrency 4 --rate 10/min --retries 3", "for all workers, from their next claim"),
    ("queue forget nightly", "remove its limits"),
)
@click.argument("what", type=click.Choice(["list", "set", "forget"]), metavar="list|set|forget")
@click.argument("name", required=False)
@click.option(
    "--concurrency",
    type=click.IntRange(0, 10_000),
    metavar="N",
    help="Maximum running at once; 0: no limit.",
)
@click.option("--rate", metavar="N/UNIT", help="Maximum start rate: 10/min, 2/s, 1/30s; none.")
@click.option(
    "--retries", type=click.IntRange(0, 1000), metavar="N", help="As in run, where a session does not set it."
)
@json_flag
@pass_context
def queue(
    cli: CliContext,
    what: str,
    name: str | None,
    concurrency: int | None,
    rate: str | None,
    retries: int | None,
    as_json: bool,
) -> int:
    """List queues, or set the limits of one. They are stored in the store and apply to every worker."""
    given = any(one is not None for one in (concurrency, rate, retries))
    if what == "list":
        if given or name is not None:
            raise UsageError("list takes no arguments", hints=["relight queue set NAME --concurrency 4"])
        return _list(cli, as_json=as_json)
    if name is None:
        raise UsageError(f"name the queue: relight queue {what} NAME")
    with cli.opened(create=True) as rl:
        if what == "forget":
            rl.queues.forget(name)
            cli.console.say(Span("✓ ", "ok"), Span(name, "bold"), " has no limits now")
            return 0
        if not given:
            raise UsageError("nothing to set", hints=["--concurrency N, --rate 10/min, --retries N"])
        made = rl.queues.set(name, concurrency=concurrency, rate=rate, retries=retries)
    from relight.journal.queues.slots import shown_rate

    if as_json:
        cli.console.document(msgspec.to_builtins(msgspec.structs.asdict(made)))
        return 0
    allowed = f"{made.concurrency or 'any number'} at once, rate {shown_rate(made.rate)}"
    cli.console.say(Span("✓ ", "ok"), Span(name, "bold"), f" allows {allowed}, retries {_or_dash(made.retries)}")
    return 0


def _list(cli: CliContext, *, as_json: bool) -> int:
    from relight.journal.queues.slots import shown_rate

    with cli.opened() as rl:
        found = rl.queues.list()
    if as_json:
        cli.console.document([msgspec.to_builtins(one) for one in found])
        return 0
    if not found:
        cli.console.say("no queues yet; queue a session: relight run --queue default -- COMMAND")
        return 0
    columns = [Column("queue", least=12), Column("queued", right=True), Column("running", right=True)]
    columns += [Column("oldest", right=True, drop=0), Column("at once", right=True), Column("rate", right=True)]
    columns += [Column("retries", right=True, drop=1), Column("workers", right=True)]
    rows: list[list[Part]] = []
    for one in found:
        oldest = age((cli.now() - one.oldest).total_seconds()) if one.oldest is not None else "-"
        limits = [_or_dash(one.concurrency), shown_rate(one.rate), _or_dash(one.retries)]
        workers = Span("none", "warn") if one.queued and not one.workers else str(one.workers)
        rows.append([Span(one.name, "bold"), str(one.queued), str(one.running), oldest, *limits, workers])
    cli.console.write(table(columns, rows, cli.console.out), tabs=True)
    return 0


def _or_dash(number: int | None) -> str:
    return "-" if number is None else str(number)
