"""`relight label`: name a checkpoint, or change the labels of a session."""

from __future__ import annotations

from collections.abc import Sequence

import click

from relight.cli.app.context import CliContext, pass_context
from relight.cli.app.verb import json_flag, ref_argument, verb
from relight.cli.inspect.list import label_pairs
from relight.cli.render.style import Span
from relight.errors import UsageError


@verb(
    "label",
    ("label fix-login@206 tests-green", "then: relight rewind fix-login@tests-green"),
    ("label fix-login before-lunch", "names the head"),
    ("label fix-login --add team=web --remove old", "labels of the session, for lists and costs"),
)
@ref_argument("checkpoint")
@click.argument("name", required=False)
@click.option("--add", "added", multiple=True, metavar="K=V", help="Give the session this label; may be repeated.")
@click.option("--remove", "removed", multiple=True, metavar="K", help="Take this label from the session.")
@json_flag
@pass_context
def label(
    cli: CliContext, checkpoint: str, name: str | None, added: Sequence[str], removed: Sequence[str], as_json: bool
) -> int:
    """Name a checkpoint, or change the labels of a session. A name that is used again moves to the new checkpoint."""
    if bool(name) == bool(added or removed):
        raise UsageError("give the name of a checkpoint, or --add KEY=VALUE and --remove KEY for the session")
    if name is None:
        labels: dict[str, str | None] = {**dict.fromkeys(removed), **label_pairs(added)}
        with cli.opened() as rl:
            info = rl.sessions.update(checkpoint, labels=labels)
        if as_json:
            cli.console.document({"session": info.id, "labels": info.labels})
        else:
            cli.console.row((info.id, *(f"{key}={value}" for key, value in sorted(info.labels.items()))))
        return 0
    with cli.opened() as rl:
        made = rl.history.label(checkpoint, name)
    seq = made.rpartition("@")[2]
    if as_json:
        cli.console.document({"checkpoint": made, "label": name})
    elif cli.console.out.terminal:
        cli.console.write([[Span("✓ ", "ok"), f'@{seq} is "{name}"']])
    else:
        cli.console.row((made, name))
    return 0
