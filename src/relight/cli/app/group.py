"""The verbs as one command: finds the one that is meant, runs it, turns what goes wrong into a message and a code.

Verbs are imported when they are called, so that the answer comes at once: the table below knows their names only.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Final

import click

from relight import configuration
from relight.cli.app.context import CliContext, common_options

VERBS: Final[dict[str, str]] = {
    "run": "running.run",
    "list": "inspect.list:list_sessions",
    "show": "inspect.show",
    "tail": "inspect.tail",
    "checkpoints": "inspect.checkpoints",
    "can-resume": "running.can_resume",
    "resume": "running.resume",
    "fork": "going_back.fork",
    "rewind": "going_back.rewind",
    "restore": "going_back.restore",
    "undo": "going_back.undo",
    "diff": "inspect.diff",
    "settle": "answering.settle",
    "send": "answering.send",
    "attach": "running.attach",
    "approve": "answering.approve",
    "deny": "answering.deny",
    "stop": "running.stop",
    "adopt": "running.adopt",
    "label": "inspect.label",
    "archive": "maintenance.archive",
    "clear": "maintenance.clear",
    "rm": "maintenance.rm",
    "sweep": "maintenance.sweep",
    "worker": "fleet.worker",
    "queue": "fleet.queue",
    "verify": "maintenance.verify",
    "doctor": "maintenance.doctor.doctor:doctor",
    "migrate": "maintenance.migrate",
    "serve": "maintenance.serve",
    "token": "maintenance.token",
    "export": "maintenance.export",
    "import": "maintenance.import_:import_bundle",
    "import-langgraph": "maintenance.import_langgraph",
    "completion": "maintenance.completion",
    "demo": "maintenance.demo",
    "help": "app.help:explain",
}
"""verb to module; the function in it is called as the module where no other name is given"""

_QUIET_CTRL_C: Final = 130
_QUIET_PIPE: Final = 141


class Verbs(click.Group):
    """The verbs, each imported when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order a newcomer needs them."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The verb, or None."""
        if cmd_name not in VERBS:
            return None
        module, _, function = VERBS[cmd_name].partition(":")
        function = function or module.rpartition(".")[2]
        found = getattr(import_module(f"relight.cli.{module}"), function)
        if not isinstance(found, click.Command):
            raise TypeError(f"relight.cli.{module}.{function} is not a command")
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click, but an unknown verb names the nearest ones."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            if args and args[0] not in VERBS:
                raise _unknown(args[0], ctx) from None
            raise error

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The verbs with a line each; the flags that hold everywhere."""
        formatter.write_text("Agents that survive: every step is saved, and whatever kills one, it goes on.")
        formatter.write_paragraph()
        rows = [(name, command.get_short_help_str(60)) for name, command in self._all(ctx)]
        with formatter.section("Verbs"):
            formatter.write_dl(rows)
        self.format_options(ctx, formatter)
        formatter.write_paragraph()
        formatter.write_text("More about one: relight help VERB")

    def _all(self, ctx: click.Context) -> list[tuple[str, click.Command]]:
        found = []
        for name in self.list_commands(ctx):
            try:
                command = self.get_command(ctx, name)
            except ModuleNotFoundError as missing:
                if missing.name != f"relight.cli.{VERBS[name].partition(':')[0]}":
                    raise
                continue
            if command is not None:
                found.append((name, command))
        return found

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Only the options: click would list the verbs once more."""
        click.Command.format_options(self, ctx, formatter)


def _unknown(word: str, ctx: click.Context) -> click.UsageError:
    from difflib import get_close_matches

    error = click.UsageError(f"no such verb: {word[:60]!a}", ctx=ctx)
    near = get_close_matches(word, VERBS, n=2, cutoff=0.5)
    error.cures = [f"relight {one}" for one in near] or ["relight help"]  # type: ignore[attr-defined]
    return error


@click.command(
    "relight",
    cls=Verbs,
    invoke_without_command=True,
    params=common_options(hidden=False),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="relight", message="relight %(version)s")
@click.pass_context
def relight(context: click.Context) -> int:
    """Agents that survive."""
    if context.invoked_subcommand is not None:
        return 0
    from relight.cli.app.home import home

    return home(context.ensure_object(CliContext))


def run(words: Sequence[str], cli: CliContext | None = None) -> int:
    """Run the command; the exit code. `cli`: another way to the store, for who runs it inside a program."""
    cli = cli or CliContext()
    sys.set_int_max_str_digits(0)  # a message may hold a number that long, and is shown as it is
    try:
        configuration.apply(os.environ)
        if "_RELIGHT_COMPLETE" in os.environ:
            from relight.cli.maintenance.completion import complete

            return complete(relight, cli)
        # Not `relight.main`: it would end a Ctrl-C with a line of its own.
        with relight.make_context("relight", list(words), obj=cli) as context:
            result = relight.invoke(context)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except click.exceptions.Exit as done:
        return done.exit_code
    except BrokenPipeError:
        # Whoever read us has what it wanted. Python would complain once more while it flushes at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _QUIET_PIPE
    except (KeyboardInterrupt, click.Abort):
        return _QUIET_CTRL_C
    except Exception as error:
        from relight.cli.app.candidates import with_candidates
        from relight.cli.render.errors import tell
        from relight.errors import RelightError

        told = with_candidates(error, cli) if isinstance(error, RelightError) else error
        return tell(told, cli.console, debug=cli.debug)
