"""`relight send`: answer a waiting session, or give a stopped one its next prompt."""

from __future__ import annotations

import click

from relight.cli.app.context import CliContext, pass_context
from relight.cli.app.verb import json_flag, ref_argument, verb
from relight.cli.render.outcome import next_command, print_checkpoint
from relight.cli.render.style import Span
from relight.values.info import SessionInfo


@verb(
    "send",
    ("send fix-login yes", "answers its question"),
    ('send fix-login "also update the docs"', "typed to a live agent in tmux, else its next prompt"),
)
@ref_argument()
@click.argument("text")
@json_flag
@pass_context
def send(cli: CliContext, ref: str, text: str, as_json: bool) -> int:
    """Send TEXT to a session. It is the answer it waits for, its next prompt, or typed to a live agent."""
    with cli.opened() as rl:
        before = rl.sessions.get(ref)
        made = rl.runs.send(ref, text)
        info = rl.sessions.get(ref)
    if made is None:
        return _delivered(cli, info, as_json=as_json)
    done = "answered" if before.question else "prompt added"
    done = f"{done}; it is {info.status}"
    return print_checkpoint(cli, made, info.title, done, ("continue", next_command(info)), as_json=as_json)


def _delivered(cli: CliContext, info: SessionInfo, *, as_json: bool) -> int:
    """Report that the text was typed into the agent's terminal; the transcript records it later."""
    if as_json:
        cli.console.document({"session": info.id, "delivered": True})
    elif cli.console.out.terminal:
        cli.console.write([[Span("✓ ", "ok"), Span(info.title, "bold"), "  typed to the live agent"]])
    else:
        cli.console.row((info.id, "delivered"))
    cli.console.next(("watch", f"relight tail {info.title} -f"))
    return 0
