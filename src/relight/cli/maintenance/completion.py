"""`relight completion`: print the completion script of a shell."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import click

from relight.cli.app.verb import verb

if TYPE_CHECKING:
    from relight.cli.app.context import CliContext

VARIABLE: Final = "_RELIGHT_COMPLETE"


@verb(
    "completion",
    ("completion bash >> ~/.bashrc", "or: source <(relight completion bash)"),
    ("completion fish > ~/.config/fish/completions/relight.fish", "fish"),
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> int:
    """Print the completion script of SHELL."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    if kind is None:
        raise AssertionError("click knows these three")
    click.echo(kind(context.find_root().command, {}, "relight", VARIABLE).source())
    return 0


def complete(group: click.Command, cli: CliContext) -> int:
    """Answer a completing shell through click: everything that app/complete.py does not answer."""
    from click.shell_completion import shell_complete

    return int(shell_complete(group, {"obj": cli}, "relight", VARIABLE, os.environ.get(VARIABLE, "")))
