"""The outcome of a start as printed: restored files, waiting time."""

from __future__ import annotations

from relight.cli.app.context import CliContext
from relight.cli.render.style import Span
from relight.text.format import display_path, moment
from relight.text.safe import one_line
from relight.values.outcome import Outcome


def print_restored_files(cli: CliContext, outcome: Outcome) -> None:
    """Say where files were restored, if any were."""
    if outcome.put_back is not None:
        where = ", ".join(display_path(path) for path in outcome.workspace.values())
        cli.console.say(Span("✓", "ok"), f" workspace restored as of @{outcome.put_back}: {where}")


def print_waiting_start(cli: CliContext, outcome: Outcome) -> None:
    """Say until when the session waits, if it does not run yet."""
    if outcome.wake_at is not None:
        title = outcome.name or outcome.session[:8]
        why = f" ({one_line(outcome.reason)})" if outcome.reason else ""
        cli.console.say(
            Span("! ", "warn"), Span(title, "bold"), f" queued until {moment(outcome.wake_at, cli.now())}{why}"
        )
