"""The command group: looks up the verb, runs it, turns exceptions into messages and exit codes.

Verbs are imported when they are called; the table below holds their names only, so that start-up stays fast.
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
from relight.cli.app.help_lines import HelpContext
from relight.telemetry.notices import print_notices

GROUPS: Final[dict[str, dict[str, str]]] = {
    "Run and steer": {
        "run": "running.run",
        "resume": "running.resume",
        "fork": "going_back.fork",
        "send": "answering.send",
        "approve": "answering.approve",
        "deny": "answering.approve:deny",
        "stop": "running.stop",
        "pause": "running.pause",
        "unpause": "running.pause:unpause",
        "attach": "running.attach",
    },
    "Look": {
        "list": "inspect.list:list_sessions",
        "show": "inspect.show",
        "tail": "inspect.tail",
        "search": "inspect.search",
        "sql": "inspect.sql",
        "checkpoints": "inspect.checkpoints",
        "can-resume": "running.can_resume",
        "diff": "inspect.diff",
    },
    "Go back and decide": {
        "rewind": "going_back.rewind",
        "restore": "going_back.restore",
        "undo": "going_back.undo",
        "settle": "answering.settle",
        "notify": "answering.notify",
        "label": "inspect.label",
    },
    "Bring in and take out": {
        "adopt": "running.adopt",
        "export": "maintenance.export",
        "import": "maintenance.import_:import_bundle",
        "import-langgraph": "maintenance.import_langgraph",
        "copy": "maintenance.copy",
        "backup": "maintenance.backup",
    },
    "Fleet": {
        "worker": "fleet.worker",
        "queue": "fleet.queue",
    },
    "Care": {
        "doctor": "maintenance.doctor.doctor:doctor",
        "verify": "maintenance.verify",
        "sweep": "maintenance.sweep",
        "clear": "maintenance.clear",
        "acknowledge": "answering.acknowledge",
        "archive": "maintenance.archive",
        "rm": "maintenance.rm",
        "migrate": "maintenance.migrate",
        "serve": "maintenance.serve",
        "token": "maintenance.token",
        "completion": "maintenance.completion",
        "demo": "maintenance.demo",
        "help": "app.help:explain",
    },
}
"""verbs as `relight help` groups them, each with its `module` or `module:function`; without a function it is named as
the module"""
VERBS: Final = {name: found for verbs in GROUPS.values() for name, found in verbs.items()}

_QUIET_CTRL_C: Final = 130
_QUIET_PIPE: Final = 141


class Verbs(click.Group):
    """The group of verbs; each module is imported on first use."""

    context_class = HelpContext

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
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
        """As in click, but an unknown verb suggests the closest ones."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            if args and args[0] not in VERBS:
                raise _unknown(args[0], ctx) from None
            raise error

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the verbs by group, each with its first line whole, then the common options."""
        formatter.write_text("Crash-proof AI agents: every step is saved; a killed agent resumes where it stopped.")
        formatter.write_paragraph()
        longest = max(map(len, VERBS))
        for title, names in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl(
                    [(name.ljust(longest), _first_sentence(self.get_command(ctx, name))) for name in names]
                )
        self.format_options(ctx, formatter)
        formatter.write_paragraph()
        formatter.write_text("Help on a verb: relight help VERB")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Only the options: click would list the verbs a second time."""
        click.Command.format_options(self, ctx, formatter)


def _first_sentence(command: click.Command | None) -> str:
    """Whole: click's own short help cuts a sentence off with dots."""
    text = " ".join((command.help or "").split()) if command is not None else ""
    return text.partition(". ")[0].rstrip(".") + "."


_OPTIONS: Final = {"cost": "list --costs", "costs": "list --costs"}
"""what is looked for as a verb, and is an option of one"""


def _unknown(word: str, ctx: click.Context) -> click.UsageError:
    from difflib import get_close_matches

    error = click.UsageError(f"no such verb: {word[:60]!r}", ctx=ctx)
    near = [_OPTIONS[word]] if word in _OPTIONS else get_close_matches(word, VERBS, n=2, cutoff=0.5)
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
    """Print what needs a person, if no verb is given."""
    if context.invoked_subcommand is not None:
        return 0
    from relight.cli.app.home import home

    return home(context.ensure_object(CliContext))


def run(words: Sequence[str], cli: CliContext | None = None) -> int:
    """Run the command and return its exit code. `cli`: a context of the caller, for use inside a program."""
    cli = cli or CliContext()
    print_notices()
    sys.set_int_max_str_digits(0)  # a message may hold an integer of any length, and is printed unchanged
    try:
        configuration.apply(os.environ)
        if "_RELIGHT_COMPLETE" in os.environ:
            from relight.cli.maintenance.completion import complete

            return complete(relight, cli)
        code = _invoked(words, cli)
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # the reader closed the pipe (`| head`): not an error
        _discard_output()
        return _QUIET_PIPE
    except (KeyboardInterrupt, click.Abort):
        return _QUIET_CTRL_C
    except Exception as error:
        from relight.cli.app.candidates import with_candidates
        from relight.cli.render.errors import print_error
        from relight.errors import RelightError

        if isinstance(error, OSError) and (failed := _output_failure(error)) is not None:
            return print_error(failed, cli.console, debug=cli.debug)
        explained = with_candidates(error, cli) if isinstance(error, RelightError) else error
        return print_error(explained, cli.console, debug=cli.debug)


def _invoked(words: Sequence[str], cli: CliContext) -> int:
    # Not `relight.main`: click would print "Aborted!" at Ctrl-C and exit by itself.
    try:
        with relight.make_context("relight", list(words), obj=cli) as context:
            result = relight.invoke(context)
    except click.exceptions.Exit as done:
        return done.exit_code
    return result if isinstance(result, int) else 0


def _output_failure(error: OSError) -> Exception | None:
    """The error as one of standard output, if it was raised where that is written."""
    from relight.cli.render import console
    from relight.errors import RelightError

    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    if frame is None or frame.tb_frame.f_code.co_filename not in (__file__, console.__file__, click.utils.__file__):
        return None
    _discard_output()
    hints = ["what the command did in the store is kept; send its output to another place"]
    return RelightError(f"standard output cannot be written: {(error.strerror or str(error)).lower()}", hints=hints)


def _discard_output() -> None:
    """Without this Python would report the same failure again when it flushes stdout at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
