"""`relight migrate`: create or update the schema of store and engine, and bring the index of words up to date.

Opening a store for writing does the former, and a search the latter; the verb is for deployments that do it before
anything starts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from relight.cli.app.context import CliContext, pass_context
from relight.cli.app.verb import json_flag, verb
from relight.cli.render.style import Span

if TYPE_CHECKING:
    from relight.ports.schema import SchemaStatus


@verb("migrate", ("migrate --dry-run", "print what would be done"), ("migrate", "do it, before workers start"))
@click.option("--dry-run", is_flag=True, help="Only print what would be done.")
@json_flag
@pass_context
def migrate(cli: CliContext, dry_run: bool, as_json: bool) -> int:
    """Create or update the schema, and the index of words. Safe to repeat, to interrupt and to run concurrently; no
    data is lost."""
    from relight import wiring

    before = wiring.schema_statuses(cli.store)
    after = before
    if not dry_run and not all(one.is_current for one in before):
        wiring.migrate(cli.store)
        after = wiring.schema_statuses(cli.store)
    console = cli.console
    if before and not dry_run:
        with cli.opened() as rl:
            rl.admin.migrate(progress=lambda left: console.status(f"{left:,} steps left to index"))
    if as_json:
        console.document(
            [
                {**msgspec.to_builtins(one), "now": now.found, "done": one.found != now.found}
                for one, now in zip(before, after, strict=True)
            ]
        )
        return 0
    for one, now in zip(before, after, strict=True):
        if console.out.terminal:
            mark = "!" if dry_run and not one.is_current else "✓"
            console.write([[Span(f"{mark} ", "ok"), Span(one.part, "bold"), f"  {_versions(one, now)}  {one.place}"]])
        else:
            console.row((one.part, one.found, now.found, one.wanted, one.place))
    if not before:
        console.say("nothing to migrate: sessions in memory have no schema")
    return 0


def _versions(one: SchemaStatus, now: SchemaStatus) -> str:
    before = "none" if one.found is None else f"version {one.found}"
    if one.is_current:
        return f"{before}: up to date"
    return f"{before} → version {now.found}" if one.found != now.found else f"{before}, would become {one.wanted}"
