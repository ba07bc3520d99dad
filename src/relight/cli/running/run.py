"""`relight run`: run any program as a session and restart it when it dies."""

from __future__ import annotations

import os
import re
import shlex
from typing import Any, Final

import click
import msgspec

from relight.cli.app.context import CliContext, pass_context
from relight.cli.app.start import (
    failover_options,
    labels_of,
    limit_options,
    moment_of,
    print_queued,
    run_in_foreground,
    start_detached,
)
from relight.cli.app.verb import json_flag, verb
from relight.cli.render.milestones import Level, Milestones
from relight.cli.render.style import Span
from relight.errors import UsageError
from relight.files.capture import DEFAULT_ROOT
from relight.text.format import display_path, short_id
from relight.values.execution import agent_of
from relight.values.info import SessionInfo
from relight.values.options import ResumeOptions, RunOptions
from relight.values.policy import Allowance, RunPolicy

_NAMED: Final = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)=(.+)", re.DOTALL)


@verb(
    "run",
    ("run -- python agent.py", "kill it: it continues"),
    ("run --name nightly --workspace . -- ./agent.sh --all", "with a name, and its files captured"),
    context_settings={"allow_interspersed_args": False},
)
@click.option("--name", metavar="N", help="Name of the session (default: agent and directory).")
@click.option(
    "--retries",
    type=click.IntRange(min=0),
    metavar="N",
    help="Restarts in a row without a new step (5; 0 for a program that does not use the library).",
)
@click.option(
    "--workspace",
    "workspaces",
    multiple=True,
    metavar="[NAME=]DIR",
    help="Capture the files of this directory with every step, or, of a program that does not use relight, at its start"
    " and end; several with names.",
)
@click.option(
    "--runtime",
    metavar="NAME",
    default="process",
    show_default=True,
    help="Where it runs: a plain process, a tmux session one can join, a bubblewrap sandbox, or one that another"
    " distribution adds.",
)
@click.option("--no-network", is_flag=True, help="No network; needs --runtime sandbox.")
@click.option(
    "--approve",
    "approve",
    multiple=True,
    metavar="PATTERN",
    help="Tool calls that need your approval: Bash, or 'Bash(git push*)'. May be repeated.",
)
@click.option(
    "--approve-within",
    type=float,
    metavar="SECONDS",
    help="When an approval expires that was not given, or not used: then it is a denial. Default: 604800, a week.",
)
@click.option("--env", "env", multiple=True, metavar="NAME[=VALUE]", help="A variable that is set at every start.")
@click.option(
    "--secret", "secrets", multiple=True, metavar="NAME", help="A required variable; its value is not stored."
)
@limit_options
@failover_options
@click.option("--library", is_flag=True, help="The program uses the relight library; required for a budget.")
@click.option("--queue", metavar="Q", help="Queue it for a worker instead of starting it here.")
@click.option("--priority", type=int, default=0, metavar="N", help="Priority in the queue; greater first.")
@click.option("--not-before", metavar="T", help="Earliest start by a worker: 22:30, 2026-12-24T08:00, or +90s, +2h.")
@click.option("--wants", default="", metavar="L,...", help="Labels that the worker must have.")
@click.option("--detach", is_flag=True, help="Run in the background; output goes to a log file.")
@click.option("-q", "--quiet", "level", flag_value="quiet", help="Print only deaths and the end.")
@click.option("-v", "--verbose", "level", flag_value="verbose", help="Print every step.")
@json_flag
@click.argument("command", nargs=-1, type=click.UNPROCESSED, required=True, metavar="-- COMMAND...")
@pass_context
def run(
    cli: CliContext,
    name: str | None,
    retries: int | None,
    workspaces: tuple[str, ...],
    runtime: str,
    no_network: bool,
    approve: tuple[str, ...],
    approve_within: float | None,
    env: tuple[str, ...],
    secrets: tuple[str, ...],
    limits: Allowance,
    failover: dict[str, Any],
    library: bool,
    queue: str | None,
    priority: int,
    not_before: str | None,
    wants: str,
    detach: bool,
    level: Level | None,
    as_json: bool,
    command: tuple[str, ...],
) -> int:
    """Run COMMAND as a session. A program that uses relight resumes by itself when it dies.

    The exit code is the program's own, or 6 if a limit halted it. Ctrl-C asks it to stop, a second one kills it; either
    way it can be resumed.
    """
    with cli.opened(create=True) as rl:
        if no_network and runtime in ("process", "tmux"):
            raise UsageError("--no-network needs a sandbox", hints=["add --runtime sandbox"])
        given = {**failover, "retries": retries, "network": not no_network, "library": library}
        given |= {"approve": approve, "approve_within": approve_within}
        policy = limits.on(RunPolicy(**given))
        options = RunOptions(
            directory=os.getcwd(),
            agent=agent_of(command[0]),
            name=name,
            runtime=runtime,
            workspace=roots_of(workspaces),
            policy=policy,
            env=variables_of(env),
            secrets=secrets,
        )
        if queue is not None:
            if detach or as_json:
                flag = "--detach" if detach else "--json"
                raise UsageError(f"{flag} cannot be combined with --queue", hints=[f"leave out {flag}"])
            when = moment_of(not_before, cli.now())
            queued: dict[str, Any] = {"queue": queue, "priority": priority, "wants": labels_of(wants)}
            return print_queued(
                cli, rl.queues.submit(command, not_before=when, **queued, **msgspec.structs.asdict(options))
            )
        if priority or not_before or wants:
            raise UsageError("--priority, --not-before and --wants need a queue", hints=["add --queue default"])
        # Nothing is stored yet: the session is created in the commit of its first claim, so a start that fails leaves
        # no empty session behind.
        pending = rl.runs.plan_launch(command, options)
        if detach:
            return start_detached(cli, rl, pending, ResumeOptions(retries=retries), as_json=as_json)
        supervision = rl.runs.supervise(pending, ResumeOptions(retries=retries))
        info = supervision.info()
        if level != "quiet":
            _announce(cli, info, supervision.joining())
        supervision.watcher = Milestones(cli, info, level=level or "normal", resumed=False)
        return run_in_foreground(cli, supervision, as_json=as_json)


def variables_of(given: tuple[str, ...]) -> dict[str, str | None]:
    """Parse `NAME=VALUE`; `NAME` alone takes the value from this environment."""
    pairs = [one.partition("=") for one in given]
    return {name: value if equals else None for name, equals, value in pairs}


def roots_of(given: tuple[str, ...]) -> dict[str, str]:
    """Parse `[NAME=]DIR` into root name to directory. A path with an = in it must begin with ./ or /."""
    roots: dict[str, str] = {}
    for one in given:
        named = _NAMED.match(one)
        name, directory = (named[1], named[2]) if named else (DEFAULT_ROOT, one)
        if name in roots:
            hints = ["name them: --workspace code=src --workspace docs=../docs"]
            raise UsageError(f"two workspaces named {name!r}", hints=hints)
        roots[name] = directory
    return roots


def _announce(cli: CliContext, info: SessionInfo, joining: list[str] | None) -> None:
    """Print the session before it starts, and how to join its terminal if it has one."""
    if cli.console.err.plain:
        cli.console.say(f"plain mode (from {cli.console.err.plain})")
    where = display_path(info.directory)
    cli.console.say(
        "relight: session ", Span(info.title, "bold"), f" {short_id(info.id)} in {where}; every step is saved"
    )
    if joining is not None:
        cli.console.say("join its terminal: ", Span(shlex.join(joining), "bold"))
