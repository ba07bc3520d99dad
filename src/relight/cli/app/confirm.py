"""Asking before something that cannot be taken back: on a terminal only, the default is No, and a flag says yes."""

from __future__ import annotations

from collections.abc import Sequence

from relight.cli.app.context import CliContext
from relight.errors import UsageError


def confirm(cli: CliContext, question: str, *, evidence: Sequence[str] = (), yes: bool) -> bool:
    """May it be done? Without a terminal and without --yes the call is refused."""
    if yes:
        return True
    console = cli.console
    if not console.can_ask:
        raise UsageError(f"not without being asked: {question}", evidence=evidence, hints=["say it beforehand: --yes"])
    for line in evidence:
        console.say(line, indent=2)
    if console.ask(f"{question} [y/N]").lower() in ("y", "yes"):
        return True
    console.say("nothing was changed")
    return False
