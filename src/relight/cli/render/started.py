"""What came of a start, as lines: where its files are, that it stands in line."""

from __future__ import annotations

from relight.cli.app.context import CliContext
from relight.cli.render.style import Span
from relight.text.format import display_path, moment
from relight.text.safe import one_line
from relight.values.outcome import Outcome


def print_restored_files(cli: CliContext, outcome: Outcome) -> None:
    """Only what happened to them."""
    if outcome.put_back is not None:
        where = ", ".join(display_path(path) for path in outcome.workspace.values())
        cli.console.say(Span("✓", "ok"), f" workspace put back as at @{outcome.put_back}: {where}")


def print_waiting_start(cli: CliContext, outcome: Outcome) -> None:
    """It does not run yet."""
    if outcome.wake_at is not None:
        title = outcome.name or outcome.session[:8]
        why = f" ({one_line(outcome.reason)})" if outcome.reason else ""
        cli.console.say(
            Span("! ", "warn"), Span(title, "bold"), f" in line until {moment(outcome.wake_at, cli.now())}{why}"
        )
