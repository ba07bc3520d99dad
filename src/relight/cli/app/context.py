"""The context of one command: common options, console, store."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

import click

from relight.cli.render.console import Console
from relight.cli.render.style import When
from relight.errors import UsageError

if TYPE_CHECKING:
    from relight.library.facade import Relight


class CliContext:
    """One invocation: every verb gets it as its first argument."""

    def __init__(self) -> None:
        self.store: str | None = None
        self.color: When = "auto"
        self.plain = False
        self.debug = False

    @cached_property
    def console(self) -> Console:
        return Console(color=self.color, plain=self.plain)

    def opened(self, *, create: bool = False, may_be_missing: bool = False) -> AbstractContextManager[Relight]:
        """Open the store; it is created only with `create`. The default store is read as empty where it does not exist;
        one that was named is StoreUnavailable then, unless it `may_be_missing`: the path may be mistyped."""
        from relight import wiring

        if not create and not may_be_missing:
            wiring.refuse_missing(self.store)
        return wiring.open(self.store, create=create, ready=False)

    def now(self) -> datetime:
        return datetime.now(UTC)


pass_context = click.make_pass_decorator(CliContext)


def _remember(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
    cli = context.find_object(CliContext)
    # An option that is absent after the verb must not overwrite the value given before it.
    if cli is not None and value not in (None, False, ()) and parameter.name is not None:
        setattr(cli, parameter.name, value)
    return value


def common_options(*, hidden: bool) -> list[click.Option]:
    """Options that are accepted before and after the verb."""
    common: dict[str, Any] = {"expose_value": False, "callback": _remember, "hidden": hidden, "is_eager": True}
    return [
        click.Option(["--store"], metavar="URL", help="Store to use (default: RELIGHT_STORE).", **common),
        click.Option(["--color"], type=click.Choice(["auto", "always", "never"]), help="Use of colours.", **common),
        click.Option(["--plain"], is_flag=True, help="No redrawing and no columns, for screen readers.", **common),
        click.Option(["--debug"], is_flag=True, help="Show the traceback of an error.", **common),
    ]


def user_name() -> str:
    """Who runs this command, as recorded with what it does: the user's name and the machine's."""
    import getpass
    import os

    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # no such user here, as in a container
        user = f"uid {os.getuid()}"
    return f"{user} on {os.uname().nodename}"


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
