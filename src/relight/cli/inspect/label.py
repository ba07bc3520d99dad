"""`relight label`: name a checkpoint."""

from __future__ import annotations

import click

from relight.cli.app.context import CliContext, pass_context
from relight.cli.app.verb import json_flag, ref_argument, verb
from relight.cli.render.style import Span


@verb(
    "label",
    ("label fix-login@206 tests-green", "then: relight rewind fix-login@tests-green"),
    ("label fix-login before-lunch", "names the head"),
)
@ref_argument("checkpoint")
@click.argument("name")
@json_flag
@pass_context
def label(cli: CliContext, checkpoint: str, name: str, as_json: bool) -> int:
    """Name a checkpoint. A name that is used again moves to the new checkpoint."""
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
