"""`relight adopt`: take over a native session that was begun without relight."""

from __future__ import annotations

import os
import re
from typing import Final

import click

from relight.cli.app.context import CliContext, pass_context
from relight.cli.app.verb import json_flag, verb
from relight.cli.render.style import Span
from relight.errors import UsageError
from relight.history.documents import session_document
from relight.text.format import count

_ID: Final = re.compile(r"[0-9a-fA-F-]{8,64}")


@verb(
    "adopt",
    ("adopt", "the newest native session of this directory"),
    (
        "adopt 5f0c1f2e-... -- claude -p --dangerously-skip-permissions",
        "by native id, with the command to start it",
    ),
    context_settings={"allow_interspersed_args": False},
)
@click.option("--name", metavar="N", help="Name of the session (default: agent and directory).")
@json_flag
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[NATIVE] [-- COMMAND...]")
@pass_context
def adopt(cli: CliContext, name: str | None, as_json: bool, words: tuple[str, ...]) -> int:
    """Import a native session of a coding agent. Its own file is not changed.

    End the agent that has it open first. `relight resume` then continues it.
    """
    native, command = _split(words)
    with cli.opened(create=True) as rl:
        info = rl.runs.adopt(native, directory=os.getcwd(), command=command, name=name)
        messages = len(rl.history.load(info.id).messages)
    if as_json:
        cli.console.document(session_document(info))
    elif cli.console.out.terminal:
        text = f"  {count(messages, 'line')} of {info.agent} adopted (@{info.head})"
        cli.console.write([[Span("✓ ", "ok"), Span(info.title, "bold"), text]])
    else:
        cli.console.row((info.id, info.name, info.agent))
    cli.console.next(("continue", f"relight resume {info.title}"))
    return 0


def _split(words: tuple[str, ...]) -> tuple[str | None, tuple[str, ...]]:
    """The native id, if given, and the command after `--`."""
    # Not click's own options: everything after the id belongs to the agent's command and must not be parsed here.
    named = bool(words) and _ID.fullmatch(words[0]) is not None
    rest = words[1:] if named else words
    if rest and rest[0].startswith("-") and rest[0] != "--":
        hints = [f"relight adopt {' '.join(rest)} {words[0]}" if named else "relight adopt --help"]
        raise UsageError(f"options go before the id, the agent's own after --: {rest[0]}", hints=hints)
    return (words[0] if named else None), rest[1:] if rest[:1] == ("--",) else rest
