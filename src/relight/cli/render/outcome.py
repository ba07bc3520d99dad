"""A committed change as printed: one line with its checkpoint, then the next command."""

from __future__ import annotations

from relight.cli.app.context import CliContext
from relight.cli.render.style import Span
from relight.history.documents import checkpoint_document
from relight.values.checkpoint import Checkpoint
from relight.values.info import SessionInfo


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
