"""`relight approve` and `relight deny`: decide about a tool call that waits for approval."""

from __future__ import annotations

import click

from relight.cli.app.context import CliContext, pass_context
from relight.cli.app.verb import json_flag, ref_argument, verb
from relight.cli.render.outcome import next_command, print_checkpoint


@verb(
    "approve",
    ("approve fix-login", "the call that waits"),
    ("approve 7f3a91 --json", "in a script"),
)
@ref_argument()
@json_flag
@pass_context
def approve(cli: CliContext, ref: str, as_json: bool) -> int:
    """Allow the tool call that session REF waits for. The decision is recorded and used once."""
    with cli.opened() as rl:
        made = rl.runs.approve(ref)
        info = rl.sessions.get(ref)
    return print_checkpoint(cli, made, info.title, "allowed", ("continue", next_command(info)), as_json=as_json)


@verb(
    "deny",
    ("deny fix-login", "the call that waits"),
    ('deny fix-login --why "not on a Friday"', "with a reason for the model"),
    ("deny 7f3a91 --json", "in a script"),
)
@ref_argument()
@click.option("--why", metavar="TEXT", help="Reason, passed to the model.")
@json_flag
@pass_context
def deny(cli: CliContext, ref: str, why: str | None, as_json: bool) -> int:
    """Deny the tool call that session REF waits for. The decision is recorded and used once."""
    with cli.opened() as rl:
        made = rl.runs.deny(ref, reason=why)
        info = rl.sessions.get(ref)
    return print_checkpoint(cli, made, info.title, "denied", ("continue", next_command(info)), as_json=as_json)
