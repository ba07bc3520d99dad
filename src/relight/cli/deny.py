"""`relight deny`: forbid a tool call that waits for a person."""

from __future__ import annotations

from relight.cli.door import Door, pass_door
from relight.cli.outcome import tell_checkpoint
from relight.cli.verb import json_flag, ref_argument, verb


@verb(
    "deny",
    ("deny fix-login", "the call it waits with"),
    ("deny 7f3a91 --json", "in a script"),
)
@ref_argument()
@json_flag
@pass_door
def deny(door: Door, ref: str, as_json: bool) -> int:
    """Deny the tool call that session REF waits with. The decision is kept and used once."""
    with door.opened() as rl:
        made = rl.decide(ref, allow=False)
        name = rl.get(ref).title
    return tell_checkpoint(door, made, name, "denied", ("go on", f"relight resume {name}"), as_json=as_json)
