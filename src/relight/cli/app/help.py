"""`relight help`: the verbs, one verb, or the ten lines of Python."""

from __future__ import annotations

from typing import Final

import click

from relight.cli.app.verb import verb

_PYTHON: Final = """import relight

@relight.tool(effect="idempotent")
def write_file(path: str, content: str) -> str: ...

with relight.session("fix-login") as s:  # new, or exactly where it stopped
    s.run(my_model, tools=[write_file], prompt="Make the login test pass")

# my_model(messages) calls your provider and returns what its client gave: an object, a stream, a dict.
# Every step is saved before the next one begins. Kill it and run it again: nothing is lost, and no tool
# is silently run twice."""


@verb("help", ("help", "all verbs"), ("help resume", "one verb, examples first"))
@click.argument("verb_name", metavar="[VERB|python]", required=False)
@click.pass_context
def explain(context: click.Context, verb_name: str | None) -> int:
    """Explain a verb, or list them all."""
    group = context.parent
    if group is None or not isinstance(group.command, click.Group):
        raise AssertionError("help is a verb of the group")
    if verb_name is None:
        click.echo(group.get_help())
    elif verb_name == "python":
        click.echo(_PYTHON)
    else:
        name, command, _ = group.command.resolve_command(group, [verb_name])
        if command is not None:
            with command.context_class(command, info_name=name, parent=group) as inner:
                click.echo(command.get_help(inner))
    return 0
