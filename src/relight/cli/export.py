"""`relight export`: a session as readable files, one JSON a step, so that nobody needs relight to read it."""

from __future__ import annotations

import json
from pathlib import Path

import click

from relight.cli.door import Door, pass_door
from relight.cli.verb import ref_argument, verb
from relight.cli.words import count
from relight.errors import Refused, UsageError


@verb(
    "export",
    ("export fix-login ./fix-login --json", "session.json and one file a step"),
    ("export fix-login@206 ./then --json", "up to a checkpoint"),
)
@ref_argument()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Readable JSON; the only form there is for now.")
@pass_door
def export(door: Door, ref: str, directory: Path, as_json: bool) -> int:
    """Write a session to DIRECTORY, which must be empty or not exist."""
    if not as_json:
        raise UsageError("say the form: --json", hints=[f"relight export {ref} {directory} --json"])
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise Refused(f"{directory}: there is something already", hints=["choose another directory"])
    with door.opened() as rl:
        documents = rl.export(ref)
        first = next(documents)  # an unknown ref is told before anything is made
        directory.mkdir(parents=True, exist_ok=True)
        written = 0
        for name, document in (first, *documents):
            text = json.dumps(document, indent=2, ensure_ascii=True, default=str)
            (directory / name).write_text(text + "\n", encoding="ascii")
            written += 1
    if door.console.out.terminal:
        door.console.write([[f"✓ {count(written, 'file')} in {directory}"]])
    else:
        door.console.row((directory, written))
    return 0
