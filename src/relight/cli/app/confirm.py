"""Confirmation before an operation that cannot be undone."""

from __future__ import annotations

from collections.abc import Sequence

from relight.cli.app.context import CliContext
from relight.errors import UsageError


def confirm(cli: CliContext, question: str, *, evidence: Sequence[str] = (), yes: bool) -> bool:
    """Ask on the terminal, default No. Without a terminal `yes` is required, else UsageError."""
    if yes:
        return True
    console = cli.console
    if not console.can_ask:
        raise UsageError(f"confirmation required: {question}", evidence=evidence, hints=["pass --yes"])
    for line in evidence:
        console.say(line, indent=2)
    if console.ask(f"{question} [y/N]").lower() in ("y", "yes"):
        return True
    console.say("nothing was changed")
    return False
