"""`relight stop`: end the process that runs a session; it can be resumed."""

from __future__ import annotations

import msgspec

from relight.cli.app.context import CliContext, pass_context
from relight.cli.app.verb import json_flag, ref_argument, verb
from relight.cli.render.style import Span


@verb("stop", ("stop fix-login", "asks it to end, kills it if it does not"), ("stop 7f3a91", "by the id"))
@ref_argument()
@json_flag
@pass_context
def stop(cli: CliContext, ref: str, as_json: bool) -> int:
    """Stop a running session. SIGTERM goes to its supervisor, else to its process. If a worker or another machine runs
    it, its supervisor is asked to stop; a queued session leaves its queue."""
    with cli.opened() as rl:
        stopped = rl.runs.stop(ref)
        info = rl.sessions.get(stopped.session)
    if as_json:
        cli.console.document(msgspec.to_builtins(stopped))
    elif cli.console.out.terminal:
        how = "had to be killed" if stopped.killed else "ended"
        who = (
            f"pid {stopped.pid} {how}" if stopped.pid else "ended elsewhere" if stopped.supervised else "left the queue"
        )
        text = f"  {who}; saved up to @{info.head}"
        cli.console.write([[Span("✓ ", "ok"), Span(info.title, "bold"), text]])
    else:
        cli.console.row((stopped.session, stopped.pid, "killed" if stopped.killed else "ended"))
    cli.console.next(("continue", f"relight resume {info.title}"))
    return 0
