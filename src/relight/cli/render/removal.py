"""A removal as printed by `rm` and `sweep`, done or planned."""

from __future__ import annotations

import msgspec

from relight.cli.app.context import CliContext
from relight.cli.render.console import wrapped
from relight.cli.render.style import Line, Span
from relight.operations.remove import Removed
from relight.text.format import count, size


def bytes_text(removed: Removed) -> str:
    """Size of the journal, and of captured files that no other session needs."""
    journal = size(removed.size_bytes)
    return f"{journal} of journal, {size(removed.file_bytes)} of files" if removed.file_bytes else journal


def print_removed(cli: CliContext, removed: Removed, *, as_json: bool) -> int:
    """Print the names, then the totals."""
    console = cli.console
    if as_json:
        console.document(msgspec.to_builtins(removed))
        return 0
    pairs = list(zip(removed.sessions, removed.names, strict=True))
    if not console.out.terminal:
        for session, name in pairs:
            console.row((session, name))
    verb = "would be removed" if removed.dry_run else "removed"
    total = f"{count(len(pairs), 'session')}, {count(removed.steps, 'step')}, {bytes_text(removed)} {verb}"
    if console.out.terminal:
        lines: list[Line] = [["  ", Span(name, "bold"), f"  {session[:8]}"] for session, name in pairs]
        console.write([*lines, *wrapped([total], console.out)])
    else:
        console.say(total)
    return 0
