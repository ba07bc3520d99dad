"""`relight settle`: decide a tool call of which nobody knows whether it took effect."""

from __future__ import annotations

import click

from relight.cli.door import Door, pass_door
from relight.cli.outcome import tell_checkpoint
from relight.cli.verb import json_flag, ref_argument, verb
from relight.errors import UsageError


@verb(
    "settle",
    ('settle fix-login call_7 --result "mail was sent"', "it did take effect"),
    ("settle fix-login call_7 --retry", "it did not: let it run again"),
)
@ref_argument()
@click.argument("call")
@click.option("--result", metavar="TEXT", help="What the tool is taken to have returned.")
@click.option("--retry", is_flag=True, help="It may run again, under the same key.")
@json_flag
@pass_door
def settle(door: Door, ref: str, call: str, result: str | None, retry: bool, as_json: bool) -> int:
    """Decide CALL of session REF, which started and is not known to have ended."""
    if retry == (result is not None):
        raise UsageError("say either --result TEXT or --retry", hints=[f"see the calls: relight can-resume {ref}"])
    with door.opened() as rl:
        made = rl.settle(ref, call, result=result, retry=retry)
        name = rl.get(ref).title
    done = f"{call} may run again" if retry else f"{call} has its result"
    return tell_checkpoint(door, made, name, done, ("go on", f"relight resume {name}"), as_json=as_json)
