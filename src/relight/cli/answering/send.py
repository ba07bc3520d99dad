"""`relight send`: answer a session that waits, or give a stopped one its next prompt."""

from __future__ import annotations

import click

from relight.cli.app.context import CliContext, pass_context
from relight.cli.app.verb import json_flag, ref_argument, verb
from relight.cli.render.outcome import goes_on, tell_checkpoint
from relight.cli.render.style import Span
from relight.values.info import SessionInfo


@verb(
    "send",
    ("send fix-login yes", "answers what it asks"),
    ('send fix-login "also update the docs"', "typed to a live agent in tmux, else its next prompt"),
)
@ref_argument()
@click.argument("text")
@json_flag
@pass_context
def send(door: CliContext, ref: str, text: str, as_json: bool) -> int:
    """Give TEXT to session REF: the answer it waits for, its next prompt, or typed to a live agent."""
    with door.opened() as rl:
        before = rl.get(ref)
        made = rl.send(ref, text)
        info = rl.get(ref)
    if made is None:
        return _delivered(door, info, as_json=as_json)
    done = "answered" if before.question else "prompt added"
    told = f"{done}; it is {info.status}"
    return tell_checkpoint(door, made, info.title, told, ("go on", goes_on(info)), as_json=as_json)


def _delivered(door: CliContext, info: SessionInfo, *, as_json: bool) -> int:
    """It was typed into the agent's own terminal; its transcript tells the rest."""
    if as_json:
        door.console.document({"session": info.id, "delivered": True})
    elif door.console.out.terminal:
        door.console.write([[Span("✓ ", "ok"), Span(info.title, "bold"), "  typed to the live agent"]])
    else:
        door.console.row((info.id, "delivered"))
    door.console.next(("watch", f"relight tail {info.title} -f"))
    return 0
