"""Outcomes as printed: of a committed change, and of a start."""

from __future__ import annotations

from relight.cli.app.context import CliContext
from relight.cli.render.style import Span
from relight.history.documents import checkpoint_document
from relight.text.format import display_path, moment
from relight.text.safe import one_line
from relight.values.checkpoint import Checkpoint
from relight.values.info import SessionInfo
from relight.values.outcome import StartOutcome


def print_checkpoint(
    cli: CliContext, made: Checkpoint, name: str, done: str, then: tuple[str, str] | None = None, *, as_json: bool
) -> int:
    """Print as JSON, as a record for a pipe, or as a sentence."""
    console = cli.console
    if as_json:
        console.document(checkpoint_document(made))
    elif console.out.terminal:
        console.write([[Span("✓ ", "ok"), Span(name, "bold"), f"  {done}  (@{made.seq})"]])
    else:
        console.row((made.id, done))
    if then is not None:
        console.next(then)
    return 0


def next_command(info: SessionInfo) -> str:
    """The command that continues an answered session: a resume if relight can start it, else its own program."""
    return f"relight resume {info.title}" if info.command else "run your program again"


def print_restored_files(cli: CliContext, outcome: StartOutcome) -> None:
    """Say where files were restored, if any were."""
    if outcome.put_back is not None:
        where = ", ".join(display_path(path) for path in outcome.workspace.values())
        cli.console.say(Span("✓", "ok"), f" workspace restored as of @{outcome.put_back}: {where}")


def print_waiting_start(cli: CliContext, outcome: StartOutcome) -> None:
    """Say until when the session waits, if it does not run yet."""
    if outcome.wake_at is not None:
        title = outcome.name or outcome.session[:8]
        why = f" ({one_line(outcome.reason)})" if outcome.reason else ""
        cli.console.say(
            Span("! ", "warn"), Span(title, "bold"), f" queued until {moment(outcome.wake_at, cli.now())}{why}"
        )
