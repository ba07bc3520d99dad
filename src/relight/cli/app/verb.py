"""A verb of the command line: a click command whose help begins with examples, and that knows the common flags."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import click

from relight.cli.app.context import common_options
from relight.cli.app.refs import RefType

_F = TypeVar("_F", bound=Callable[..., Any])
_COMMON: Final = "Everywhere: --store URL, --color auto|always|never, --plain, --debug, --help"

Example = tuple[str, str]
"""what is typed, and what it is for"""


class Verb(click.Command):
    """`examples` come first in its help; at least two."""

    def __init__(self, *args: Any, examples: Sequence[Example] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = tuple(examples)
        self.params += common_options(hidden=True)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Examples, usage, what it does, options."""
        with formatter.section("Examples"):
            formatter.write_dl([(f"relight {typed}", meaning) for typed, meaning in self.examples], col_max=44)
        formatter.write_paragraph()
        self.format_usage(ctx, formatter)
        self.format_help_text(ctx, formatter)
        self.format_options(ctx, formatter)
        formatter.write_paragraph()
        formatter.write_text(_COMMON)


def verb(name: str, *examples: Example, **settings: Any) -> Callable[[Callable[..., Any]], Verb]:
    """Make a function the verb `name`."""
    return click.command(name, cls=Verb, examples=examples, **settings)


json_flag: Final = click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")


def ref_argument(name: str = "ref", **settings: Any) -> Callable[[_F], _F]:
    """A reference to a session or a checkpoint, completed by the shell."""
    return click.argument(name, type=RefType(), **settings)
