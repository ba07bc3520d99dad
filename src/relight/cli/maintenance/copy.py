"""`relight copy`: copy sessions from one store into another."""

from __future__ import annotations

import click
import msgspec

from relight.cli.app.context import CliContext, pass_context
from relight.cli.app.verb import json_flag, verb
from relight.text.format import count


@verb(
    "copy",
    ("copy relight.db postgresql://db/relight", "every session; again: only what is new"),
    ("copy relight.db other.db fix-login", "one, with the sessions it depends on"),
)
@click.argument("source")
@click.argument("destination")
@click.argument("refs", nargs=-1, metavar="[REF]...")
@json_flag
@pass_context
def copy(cli: CliContext, source: str, destination: str, refs: tuple[str, ...], as_json: bool) -> int:
    """Copy sessions with their files from one store to another. Stores may be of any kind. Nothing is changed in
    SOURCE, nothing is overwritten in DESTINATION, and every copy is verified. Interrupted, the next copy continues."""
    from relight import wiring

    console = cli.console
    wiring.refuse_missing(source, "SOURCE")
    with wiring.open(source, create=False, ready=False) as rl:
        done = rl.admin.copy(destination, *refs, progress=lambda what, n, of: console.status(f"{what} {n:,} of {of:,}"))
    console.status("")
    if as_json:
        console.document(msgspec.to_builtins(done) | {"ok": done.ok})
    elif console.out.terminal:
        written = f"{count(done.copied, 'session')} and {count(done.steps, 'step')} copied, {done.verified:,} verified"
        console.write([[f"✓ {written} · {done.present:,} were there already · {done.destination}"]])
    else:
        console.row((done.copied, done.steps, done.present, done.verified, len(done.refused), done.destination))
    for name in done.running:
        console.say(f"{name} is running: copied up to its present step; copy again when it has ended")
    for one in done.refused:
        console.say(f"not copied: {one.name or one.session[:12]}: {one.why}")
    return 0 if done.ok else 1
