"""Attach: the command that attaches a person to the terminal of a session's program."""

from __future__ import annotations

from relight.errors import Refused
from relight.history.loading import Found
from relight.sessions.context import Context


def attach(context: Context, found: Found) -> list[str]:
    """The command that attaches to a session's terminal. Refused if there is none."""
    name, head = found.identity.name or found.identity.id[:8], found.whole_head()
    runtime = context.runtime(found.identity)
    command: list[str] | None = runtime.attach(head.handle) if head.handle else None
    if command is None:
        hints = [f"follow its steps: relight tail {name} -f", "run it in a terminal to attach to: --runtime tmux"]
        raise Refused(f"{name}: no terminal to attach to (runtime {runtime.name})", hints=hints)
    return command
