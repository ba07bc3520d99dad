"""`relight sweep`: remove finished sessions whose retention is over. Unfinished ones never go by age."""

from __future__ import annotations

import click

from relight.cli.door import Door, pass_door
from relight.cli.removal import tell_removed
from relight.cli.verb import json_flag, verb


@verb("sweep", ("sweep --dry-run", "what is over"), ("sweep --days 30", "finished for a month or longer"))
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@click.option("--days", type=click.FloatRange(min=0), metavar="N", help="Keep finished sessions N days (else 7).")
@json_flag
@pass_door
def sweep(door: Door, dry_run: bool, days: float | None, as_json: bool) -> int:
    """Remove what finished longer ago than it is kept."""
    from relight.model.policy import Retention

    policy = Retention(finished_days=days) if days is not None else Retention()
    with door.opened() as rl:
        removed = rl.sweep(policy, dry_run=dry_run)
    tell_removed(door, removed, as_json=as_json)
    if (removed.sessions or removed.file_bytes) and dry_run:
        door.console.next(("do it", f"relight sweep{f' --days {days:g}' if days is not None else ''}"))
    return 0
