"""`relight clear`: revoke the lease of a session whose owner hangs or is not visible."""

from __future__ import annotations

import click

from relight.cli.app.context import CliContext, confirm, pass_context, user_name
from relight.cli.app.verb import json_flag, ref_argument, verb
from relight.cli.render.outcome import print_checkpoint


@verb(
    "clear",
    ("clear fix-login", "asks first if its process is alive"),
    ('clear fix-login --why "host is gone" --yes', "in a script; the reason is recorded"),
)
@ref_argument()
@click.option("--why", metavar="TEXT", help="Reason, recorded in the journal.")
@click.option("--forget-native", is_flag=True, help="Also drop the native session: the next start gets a summary.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@json_flag
@pass_context
def clear(cli: CliContext, ref: str, why: str | None, forget_native: bool, yes: bool, as_json: bool) -> int:
    """Revoke the lease of a session. If the owner is alive, its next write is refused and it stops."""
    with cli.opened() as rl:
        info = rl.sessions.get(ref)
        if info.status in ("working", "spawning"):
            evidence = list(info.evidence)
            question = f"{info.title} is running; revoke its lease?"
            if not confirm(cli, question, evidence=evidence, yes=yes):
                return 0
        made = rl.admin.release(ref, why=why, who=user_name(), forget_native=forget_native)
        name = rl.sessions.get(ref).title
    done = "lease cleared" if info.evidence else "native session forgotten"
    return print_checkpoint(cli, made, name, done, ("continue", f"relight resume {name}"), as_json=as_json)
