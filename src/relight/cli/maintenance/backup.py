"""`relight backup`: a copy of the whole store, while it is in use."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from relight.cli.app.context import CliContext, pass_context
from relight.cli.app.verb import json_flag, verb
from relight.text.format import count, size


@verb(
    "backup",
    ("backup monday.db", "the store and its captured files, verified"),
    ("--store monday.db list", "a backup is a store: open it"),
)
@click.argument("file", type=click.Path(path_type=Path))
@json_flag
@pass_context
def backup(cli: CliContext, file: Path, as_json: bool) -> int:
    """Back up the whole store to a new FILE. Programs may keep writing: it is the state of one moment. Captured files
    go to FILE.blobs. FILE appears when every digest was verified."""
    console = cli.console
    with cli.opened() as rl:
        done = rl.admin.backup(file, progress=lambda what, n, of: console.status(f"{what} {n:,} of {of:,}"))
    console.status("")
    if as_json:
        console.document(msgspec.to_builtins(done))
    elif console.out.terminal:
        what = f"{count(done.sessions, 'session')}, {count(done.steps, 'step')} verified · {size(done.size_bytes)}"
        console.write([[f"✓ {done.path}  {what}"]])
        console.say(f"captured files: {done.files or 'none'}")
    else:
        console.row((done.path, done.sessions, done.steps, done.size_bytes, done.files))
    return 0
