"""`relight send`: answer a session that waits, or give a stopped one its next prompt."""

from __future__ import annotations

import click

from relight.cli.door import Door, pass_door
from relight.cli.outcome import tell_checkpoint
from relight.cli.verb import json_flag, ref_argument, verb


@verb(
    "send",
    ("send fix-login yes", "answers what it asks"),
    ('send fix-login "also update the docs"', "the next prompt of one that stopped"),
)
@ref_argument()
@click.argument("text")
@json_flag
@pass_door
def send(door: Door, ref: str, text: str, as_json: bool) -> int:
    """Commit TEXT as the answer or the next prompt; the session is back in line."""
    with door.opened() as rl:
        before = rl.get(ref)
        made = rl.send(ref, text)
        info = rl.get(ref)
    done = "answered" if before.question else "prompt added"
    then = f"relight resume {info.title}" if info.command else "run your program again"
    return tell_checkpoint(door, made, info.title, f"{done}; it is {info.status}", ("go on", then), as_json=as_json)
