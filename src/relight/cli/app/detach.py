"""`--detach`: start in the background and print what came of it."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from relight.cli.app.context import CliContext
from relight.cli.render.outcome import print_waiting_start
from relight.cli.render.style import Span
from relight.history.documents import outcome_document
from relight.processes.background import start_in_background
from relight.values.options import AS_IT_IS, ResumeOptions
from relight.values.session import Pending

if TYPE_CHECKING:
    from relight.library.facade import Relight


def start_detached(
    cli: CliContext,
    rl: Relight,
    session: str | Pending,
    options: ResumeOptions = AS_IT_IS,
    *,
    as_json: bool = False,
) -> int:
    """Return once the program runs or the session is queued."""
    info, pid, child, outcome = start_in_background(rl, session, options)
    child.returncode = child.returncode or 0  # else Popen warns at exit about a child that was not waited for
    console = cli.console
    if as_json:
        console.document({**outcome_document(outcome), "supervisor": pid})
        return 0
    if not console.out.terminal:
        console.row((info.id, info.name, pid))
    elif outcome.wake_at is not None:
        print_waiting_start(cli, outcome)
    else:
        console.write([[Span("✓ ", "ok"), Span(info.title, "bold"), f"  runs in the background, pid {pid}"]])
    if outcome.put_back is not None:
        console.say(Span("✓", "ok"), f" workspace restored as of @{outcome.put_back}")
    joined = [("join its terminal", shlex.join(info.attach))] if info.attach else []
    console.next(*joined, ("watch", f"relight tail {info.title} -f"), ("stop", f"relight stop {info.title}"))
    return 0
