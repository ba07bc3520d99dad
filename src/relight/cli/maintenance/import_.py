"""`relight import`: take in a session that `relight export` wrote, on this machine or another."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from relight.cli.app.context import CliContext, pass_context
from relight.cli.app.key_file import read_key
from relight.cli.app.verb import json_flag, verb
from relight.text.format import count


@verb(
    "import",
    ("import fix-login.relight", "checked, then taken in; marked untrusted"),
    ("import f.relight --key k --workspace ./shop", "signed with this key, its files for this directory"),
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--name", help="Another name here; else its own, or a free one like it.")
@click.option("--workspace", metavar="DIR", help="Where its files go when they are restored; nothing is written yet.")
@click.option("--key", type=click.Path(path_type=Path), metavar="KEYFILE", help="Only if it is signed with this key.")
@json_flag
@pass_context
def import_bundle(
    cli: CliContext, file: Path, name: str | None, workspace: str | None, key: Path | None, as_json: bool
) -> int:
    """Take in the session of FILE. Everything is checked first; nothing here is ever written over."""
    secret = read_key(key) if key is not None else None
    with cli.opened(create=True) as rl:
        made = rl.import_bundle(file, name=name, workspace=workspace, key=secret)
    console = cli.console
    title = made.name or made.session[:12]
    if as_json:
        console.document(msgspec.to_builtins(made))
    elif console.out.terminal:
        trust = "trusted" if made.trusted else "untrusted"
        what = "is here already" if made.already_here else f"taken in · {count(made.steps, 'step')}"
        console.write([[f"✓ {title} {what} · {trust}"]])
    else:
        console.row((made.session, made.name or "-", made.steps, "trusted" if made.trusted else "untrusted"))
    if not made.trusted:
        console.say("untrusted: it can be read and forked, and starts nothing by itself")
    console.next(("look", f"relight show {title}"), ("check", f"relight verify {title}"))
    return 0
