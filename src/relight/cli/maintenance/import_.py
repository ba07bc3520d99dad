"""`relight import`: import a bundle that `relight export` wrote."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from relight.cli.app.context import CliContext, pass_context
from relight.cli.app.verb import json_flag, verb
from relight.cli.maintenance.export import read_key
from relight.text.format import count


@verb(
    "import",
    ("import fix-login.relight", "checked, then imported; marked untrusted"),
    ("import f.relight --key k --workspace ./shop", "check the signature; files go to this directory"),
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--name", help="Name of the session here (default: its own, or a free one like it).")
@click.option("--workspace", metavar="DIR", help="Directory for its files when they are restored.")
@click.option("--key", type=click.Path(path_type=Path), metavar="KEYFILE", help="Refuse unless signed with this key.")
@json_flag
@pass_context
def import_bundle(
    cli: CliContext, file: Path, name: str | None, workspace: str | None, key: Path | None, as_json: bool
) -> int:
    """Import a session from a bundle. Everything is checked first; nothing is overwritten."""
    # The key is read first: a missing key file must not leave a new, empty store behind.
    secret = read_key(key) if key is not None else None
    with cli.opened(create=True) as rl:
        made = rl.history.import_(file, name=name, workspace=workspace, key=secret)
    console = cli.console
    title = made.name or made.session[:12]
    if as_json:
        console.document(msgspec.to_builtins(made))
    elif console.out.terminal:
        trust = "trusted" if made.trusted else "untrusted"
        what = "was imported before" if made.already_here else f"imported · {count(made.steps, 'step')}"
        console.write([[f"✓ {title} {what} · {trust}"]])
    else:
        console.row((made.session, made.name or "-", made.steps, "trusted" if made.trusted else "untrusted"))
    if not made.trusted:
        console.say("untrusted: it can be read and forked, but not started")
    console.next(("show", f"relight show {title}"), ("verify", f"relight verify {title}"))
    return 0
