"""`relight sweep`: remove finished sessions whose retention is over, or set the store's retention policy.

Nothing is removed without a request: this command or a policy (`--set`). Unfinished sessions are never removed.
"""

from __future__ import annotations

import os

import click

from relight.cli.app.context import CliContext, pass_context, user_name
from relight.cli.app.verb import json_flag, verb
from relight.cli.maintenance.rm import print_removed
from relight.errors import UsageError
from relight.history.documents import retention_document
from relight.journal.retention import retention_days
from relight.text.format import policy_text


@verb(
    "sweep",
    ("sweep --dry-run", "print what would be removed"),
    ("sweep --days 30", "finished for a month or longer"),
    ("sweep --set 7d", "every day, by serve, workers and supervisors"),
    ("sweep --set off", "nothing is removed automatically"),
)
@click.option("--dry-run", is_flag=True, help="Only print what would be removed.")
@click.option(
    "--days",
    type=click.FloatRange(min=0),
    metavar="N",
    help="Keep finished sessions N days (else the policy, else 7).",
)
@click.option("--set", "retention", metavar="AGE", help="Set the store's policy: 7d, 36h, 2w, or off. Removes nothing.")
@json_flag
@pass_context
def sweep(cli: CliContext, dry_run: bool, days: float | None, retention: str | None, as_json: bool) -> int:
    """Remove finished sessions whose retention is over. With --set, set the retention time."""
    from relight.values.policy import Retention

    if retention is not None and (dry_run or days is not None):
        raise UsageError("--set cannot be combined with other options")
    if retention is not None:
        return _set(cli, retention, as_json=as_json)
    with cli.opened() as rl:
        asked = Retention(finished_days=days) if days is not None else None
        removed = rl.admin.sweep(asked, dry_run=dry_run, by=user_name())
        policy = rl.admin.retention()
    print_removed(cli, removed, as_json=as_json)
    if (removed.sessions or removed.file_bytes) and dry_run:
        cli.console.next(("do it", f"relight sweep{f' --days {days:g}' if days is not None else ''}"))
    if not as_json and policy.finished_days is None:
        cli.console.next(("every day", "relight sweep --set 7d"))
    return 0


def _set(cli: CliContext, text: str, *, as_json: bool) -> int:
    try:
        days = retention_days(text)
    except ValueError as error:
        raise UsageError(str(error)) from None
    with cli.opened(create=True) as rl:
        rl.admin.set_retention(days, by=user_name())
        policy, document = rl.admin.retention(), retention_document(rl.admin.retention(), rl.admin.last_sweep_us())
    if as_json:
        cli.console.document(document)
    else:
        cli.console.say(policy_text(policy))
        if policy.set_by == "RELIGHT_RETENTION" and policy.finished_days != days:
            cli.console.say(f"RELIGHT_RETENTION={os.environ.get('RELIGHT_RETENTION')} is set here and overrides it")
    return 0
