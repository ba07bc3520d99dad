"""Click type of session and checkpoint references, with shell completion."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from relight.cli.app.context import CliContext

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class RefType(click.ParamType[str]):
    """Parsed as plain text; completed with sessions, after an `@` with the labels of that session."""

    name = "ref"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        from relight.cli.app.complete import completions

        cli = ctx.find_object(CliContext) or CliContext()
        return [CompletionItem(value, help=meaning) for value, meaning in completions(cli.store, incomplete)]
