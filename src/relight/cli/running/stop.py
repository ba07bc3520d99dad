"""`relight stop`: end the process that runs a session; it can be resumed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from relight.cli.app.context import CliContext, pass_context
from relight.cli.app.verb import json_flag, ref_argument, verb
from relight.cli.render.style import Span

if TYPE_CHECKING:
    from relight.supervision.stop import Stopped


@verb(
    "stop", ("stop fix-login", "asks it to end, kills it if it does not"), ("stop research --tree", "with its children")
)
@ref_argument()
@click.option("--tree", is_flag=True, help="Stop the sessions that it spawned, too.")
@json_flag
@pass_context
def stop(cli: CliContext, ref: str, tree: bool, as_json: bool) -> int:
    """Stop a running session. SIGTERM goes to its supervisor, else to its process. If a worker or another machine runs
    it, its supervisor is asked to stop; a queued session leaves its queue."""
    with cli.opened() as rl:
        stopped = rl.runs.stop(ref, tree=tree)
        info, *below = (rl.sessions.get(one) for one in (stopped.session, *stopped.below))
    if as_json:
        cli.console.document(msgspec.to_builtins(stopped))
    elif cli.console.out.terminal:
        cli.console.write(
            [[Span("✓ ", "ok"), Span(info.title, "bold"), f"  {_how(stopped)}; saved up to @{info.head}"]]
        )
        cli.console.write([[Span("✓ ", "ok"), Span(one.title, "bold"), f"  saved up to @{one.head}"] for one in below])
    else:
        cli.console.row((stopped.session, stopped.pid, "killed" if stopped.killed else "ended"))
        for one in below:
            cli.console.row((one.id, 0, "ended"))
    cli.console.next(("continue", f"relight resume {info.title}"))
    return 0


def _how(stopped: Stopped) -> str:
    if stopped.pid:
        return f"pid {stopped.pid} {'had to be killed' if stopped.killed else 'ended'}"
    return "ended elsewhere" if stopped.supervised else "did not run" if stopped.below else "left the queue"
