"""What every verb is handed: the flags that hold everywhere, the console, and the way to the store."""

from __future__ import annotations

from contextlib import AbstractContextManager
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

import click

from relight.cli.render.console import Console
from relight.cli.render.style import When

if TYPE_CHECKING:
    from relight.library.facade import Relight


class CliContext:
    """One invocation of the command."""

    def __init__(self) -> None:
        self.store: str | None = None
        self.color: When = "auto"
        self.plain = False
        self.debug = False

    @cached_property
    def console(self) -> Console:
        """Made when the flags are known."""
        return Console(color=self.color, plain=self.plain)

    def opened(self, *, create: bool = False) -> AbstractContextManager[Relight]:
        """The store. One that does not exist is empty, and stays away unless it is to be made."""
        from relight import wiring

        return wiring.open(self.store, create=create, ready=False)

    def now(self) -> datetime:
        """For ages."""
        return datetime.now(UTC)


pass_context = click.make_pass_decorator(CliContext)


def _remember(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
    cli = context.find_object(CliContext)
    if cli is not None and value not in (None, False, ()) and parameter.name is not None:
        setattr(cli, parameter.name, value)
    return value


def common_options(*, hidden: bool) -> list[click.Option]:
    """The flags that hold before the verb and after it."""
    common: dict[str, Any] = {"expose_value": False, "callback": _remember, "hidden": hidden, "is_eager": True}
    return [
        click.Option(["--store"], metavar="URL", help="Where sessions are kept (else RELIGHT_STORE).", **common),
        click.Option(
            ["--color"], type=click.Choice(["auto", "always", "never"]), help="Colours on a terminal.", **common
        ),
        click.Option(["--plain"], is_flag=True, help="No redrawing, no columns: for screen readers.", **common),
        click.Option(["--debug"], is_flag=True, help="Show where an error came from.", **common),
    ]
