"""`relight can-resume`: print the resume plan and the reasons against it; changes nothing."""

from __future__ import annotations

import shlex

from relight.cli.app.context import CliContext, pass_context
from relight.cli.app.start import agent_option
from relight.cli.app.verb import json_flag, ref_argument, verb
from relight.cli.render.plan import lines_of
from relight.cli.render.style import Span
from relight.history.documents import plan_document
from relight.values.options import ResumeOptions


@verb(
    "can-resume",
    ("can-resume fix-login", "what a resume would do"),
    ("can-resume fix-login@206 --json", "as a document with ok, reasons, in_doubt"),
)
@ref_argument()
@agent_option
@json_flag
@pass_context
def can_resume(cli: CliContext, ref: str, as_json: bool, agent: str | None) -> int:
    """Print whether and how a session can be resumed. The exit code is 0 if it can, 4 if not."""
    console = cli.console
    with cli.opened() as rl:
        plan = rl.runs.plan(ref, options=ResumeOptions(agent=agent))
    if as_json:
        console.document(plan_document(plan))
    else:
        console.write(lines_of(plan, now=cli.now(), style=console.out))
        console.write([[Span("✓ can resume", "ok") if plan.ok else Span("✗ cannot resume", "bad")]])
    if plan.ok and plan.command is not None:
        handed = f" --agent {shlex.quote(agent)}" if agent is not None else ""
        console.next(("continue", f"relight resume {ref}{handed}"))
    return 0 if plan.ok else 4
