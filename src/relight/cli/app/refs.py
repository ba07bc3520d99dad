"""References on the command line: passed on as typed, completed by the shell, names first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from relight.cli.app.context import CliContext

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class RefType(click.ParamType[str]):
    """Text for the parser, sessions for the shell; after an `@` the labels of that session."""

    name = "ref"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """What could stand here."""
        from click.shell_completion import CompletionItem

        from relight.cli.app.complete import completions

        cli = ctx.find_object(CliContext) or CliContext()
        return [CompletionItem(value, help=meaning) for value, meaning in completions(cli.store, incomplete)]
