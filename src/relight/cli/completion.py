"""`relight completion`: the script that teaches a shell our verbs, sessions and labels."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import click

from relight.cli.verb import verb

if TYPE_CHECKING:
    from relight.cli.door import Door

VARIABLE: Final = "_RELIGHT_COMPLETE"
TAKES_REF: Final = frozenset(
    [
        "show",
        "tail",
        "checkpoints",
        "can-resume",
        "resume",
        "fork",
        "rewind",
        "restore",
        "undo",
        "diff",
        "settle",
        "send",
        "stop",
        "label",
        "archive",
        "clear",
        "rm",
        "verify",
        "export",
    ]
)


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


def complete(group: click.Command, door: Door) -> int:
    """Answer a shell that asks what could come next. A reference is answered without importing its verb."""
    from click.shell_completion import get_completion_class, shell_complete

    instruction = os.environ.get(VARIABLE, "")
    kind = get_completion_class(instruction.partition("_")[0]) if instruction.endswith("_complete") else None
    if kind is None:
        return int(shell_complete(group, {"obj": door}, "relight", VARIABLE, instruction))
    shell = kind(group, {"obj": door}, "relight", VARIABLE)
    words, incomplete = shell.get_completion_args()
    if len(words) != 1 or words[0] not in TAKES_REF or incomplete.startswith("-"):
        return int(shell_complete(group, {"obj": door}, "relight", VARIABLE, instruction))
    from relight.cli.refs import completions

    for item in completions(door, incomplete):
        click.echo(shell.format_completion(item))
    return 0
