"""`relight approve`: let a tool call run that waits for a person."""

from __future__ import annotations

from relight.cli.door import Door, pass_door
from relight.cli.outcome import goes_on, tell_checkpoint
from relight.cli.verb import json_flag, ref_argument, verb


@verb(
    "approve",
    ("approve fix-login", "the call it waits with"),
    ("approve 7f3a91 --json", "in a script"),
)
@ref_argument()
@json_flag
@pass_door
def approve(door: Door, ref: str, as_json: bool) -> int:
    """Allow the tool call that session REF waits with. The decision is kept and used once."""
    with door.opened() as rl:
        made = rl.decide(ref, allow=True)
        info = rl.get(ref)
    return tell_checkpoint(door, made, info.title, "allowed", ("go on", goes_on(info)), as_json=as_json)
