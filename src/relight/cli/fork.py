"""`relight fork`: a new session from a checkpoint; the one it comes from stays as it is."""

from __future__ import annotations

import click

from relight.cli.door import Door, pass_door
from relight.cli.look import Line, Span
from relight.cli.verb import json_flag, ref_argument, verb
from relight.engine.documents import session_document
from relight.wording import place


@verb(
    "fork",
    ("fork fix-login@206 --workspace ../try2", "another try from there, in a directory of its own"),
    ('fork fix-login "use argon2" --name argon', "with other words, under a name"),
)
@ref_argument("checkpoint")
@click.argument("prompt", required=False)
@click.option("--name", metavar="N", help="What the new session is called.")
@click.option("--workspace", metavar="DIR", help="A new directory, filled with the checkpoint's files.")
@json_flag
@pass_door
def fork(
    door: Door, checkpoint: str, prompt: str | None, name: str | None, workspace: str | None, as_json: bool
) -> int:
    """Make a new session that begins at CHECKPOINT (a session means its head)."""
    console = door.console
    with door.opened() as rl:
        made = rl.fork(checkpoint, name=name, prompt=prompt, workspace=workspace)
    if as_json:
        console.document(session_document(made))
        return 0
    shared = ", ".join(place(path) for path in made.workspace.values()) if workspace is None else ""
    if not console.out.terminal:
        console.row((made.id, made.name, made.parent))
    else:
        parent = f"{(made.parent or '')[:8]}@{made.head}" if made.parent else "nothing"
        line: Line = [Span("✓ ", "ok"), Span(made.title, "bold"), f"  forked from {checkpoint} ({parent})"]
        console.write([line])
        if workspace is not None:
            console.write([["  files  ", ", ".join(place(path) for path in made.workspace.values())]])
    if shared:
        console.say(Span("!", "warn"), f" it works in {shared}, as the session it comes from; its own: --workspace DIR")
    console.next(("go on", f"relight resume {made.title}"))
    return 0
