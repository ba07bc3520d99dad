"""`relight attach`: join the terminal of a session."""

from __future__ import annotations

import os

from relight.cli.app.context import CliContext, pass_context
from relight.cli.app.verb import json_flag, ref_argument, verb
from relight.errors import UsageError


@verb("attach", ("attach fix-login", "the agent's own screen; leave it with Ctrl-b d"), ("attach 7f3a91", "by the id"))
@ref_argument()
@json_flag
@pass_context
def attach(cli: CliContext, ref: str, as_json: bool) -> int:
    """Join the terminal of a session (runtime tmux). Detaching leaves the agent running."""
    with cli.opened() as rl:
        command = rl.runs.attach(ref)
    if as_json:
        cli.console.document({"command": command})
        return 0
    if not cli.console.out.terminal:
        raise UsageError("attach needs a terminal", hints=[f"run there: {' '.join(command)}"])
    # tmux replaces this process: it needs the terminal, signals and window size changes directly.
    os.execvp(command[0], command)
