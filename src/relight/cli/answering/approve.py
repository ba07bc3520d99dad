"""`relight approve`: allow a tool call that waits for approval."""

from __future__ import annotations

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
        made = rl.decide(ref, allow=True)
        info = rl.get(ref)
    return print_checkpoint(cli, made, info.title, "allowed", ("continue", next_command(info)), as_json=as_json)
