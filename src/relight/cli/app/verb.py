"""A verb: a click command with examples in its help and the common options."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from relight.cli.app.context import CliContext, common_options
from relight.cli.app.help_lines import HelpContext

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


_F = TypeVar("_F", bound=Callable[..., Any])
_COMMON: Final = "Common options: --store URL, --color auto|always|never, --plain, --debug, --help"

Example = tuple[str, str]
"""arguments, and what they do"""


class Verb(click.Command):
    """A click command whose help begins with `examples`."""

    context_class = HelpContext

    def __init__(self, *args: Any, examples: Sequence[Example] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = tuple(examples)
        self.params += common_options(hidden=True)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Examples"):
            formatter.write_dl([(f"relight {typed}", meaning) for typed, meaning in self.examples], col_max=44)
        formatter.write_paragraph()
        self.format_usage(ctx, formatter)
        self.format_help_text(ctx, formatter)
        self.format_options(ctx, formatter)
        formatter.write_paragraph()
        formatter.write_text(_COMMON)


def verb(name: str, *examples: Example, **settings: Any) -> Callable[[Callable[..., Any]], Verb]:
    """Decorator that turns a function into the verb `name`."""
    return click.command(name, cls=Verb, examples=examples, **settings)


json_flag: Final = click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")


def ref_argument(name: str = "ref", **settings: Any) -> Callable[[_F], _F]:
    """An argument that is a reference, completed by the shell."""
    return click.argument(name, type=RefType(), **settings)


class RefType(click.ParamType[str]):
    """Parsed as plain text; completed with sessions, after an `@` with the labels of that session."""

    name = "ref"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        from relight.cli.app.complete import completions

        cli = ctx.find_object(CliContext) or CliContext()
        return [CompletionItem(value, help=meaning) for value, meaning in completions(cli.store, incomplete)]
