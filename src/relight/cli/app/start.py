"""Starting a program from a verb: in the foreground, in the background (`--detach`) or in a queue; limits, times."""

from __future__ import annotations

import functools
import os
import re
import shlex
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import datetime, timedelta
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

import click

from relight.cli.app.context import CliContext
from relight.cli.render.outcome import print_end, print_waiting_start
from relight.cli.render.style import Span
from relight.errors import UsageError
from relight.history.documents import outcome_document, session_document
from relight.journal.limits import is_limit
from relight.processes.background import start_in_background
from relight.sessions.limits import allowance
from relight.supervision.program import Supervision
from relight.text.format import moment, short_id
from relight.values.info import SessionInfo
from relight.values.options import AS_IT_IS, ResumeOptions
from relight.values.policy import NO_ALLOWANCE, Allowance
from relight.values.session import Pending

if TYPE_CHECKING:
    from relight.library.facade import Relight


_STDOUT: Final = 1
_STDERR: Final = 2
_STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_in_foreground(cli: CliContext, supervision: Supervision, *, as_json: bool = False) -> int:
    """Run to the end. The exit code is the program's, as a shell reports it, or 6 if a limit halted it.

    `as_json`: start and end are one JSON document on stdout; the program's own output goes to stderr.
    """
    began = cli.now()
    with _forwarding(cli, supervision), _stdout_reserved() if as_json else nullcontext():
        try:
            ended = supervision.run()
        finally:
            cli.console.status("")
    print_end(cli.console, ended, seconds=(cli.now() - began).total_seconds())
    if as_json:
        started = outcome_document(supervision.outcome) if supervision.outcome is not None else {}
        how = {"session": session_document(ended.session), "exit_code": ended.exit.shell_code}
        cli.console.document({**started, "ended": how})
    return exit_code(ended.session, ended.exit.shell_code)


agent_option = click.option(
    "--agent", metavar="A", help="Hand the conversation over to this coding agent: its name, or its command line."
)


@contextmanager
def _stdout_reserved() -> Iterator[None]:
    """Point descriptor 1 at stderr for child processes, so that stdout holds the JSON document only."""
    saved = os.dup(_STDOUT)
    os.dup2(_STDERR, _STDOUT)
    try:
        yield
    finally:
        os.dup2(saved, _STDOUT)
        os.close(saved)


@contextmanager
def _forwarding(cli: CliContext, supervision: Supervision) -> Iterator[None]:
    """Forward SIGINT, SIGTERM and SIGHUP to the program; the second signal kills it."""

    def forward(number: int, frame: FrameType | None) -> None:
        supervision.interrupt(number)

    # The former handlers are restored: the command may run inside a program (app/group.py `run`).
    before = {number: signal.signal(number, forward) for number in _STOP_SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def start_detached(
    cli: CliContext,
    rl: Relight,
    session: str | Pending,
    options: ResumeOptions = AS_IT_IS,
    *,
    as_json: bool = False,
) -> int:
    """Return once the program runs or the session is queued."""
    info, pid, child, outcome = start_in_background(rl, session, options)
    child.returncode = child.returncode or 0  # else Popen warns at exit about a child that was not waited for
    console = cli.console
    if as_json:
        console.document({**outcome_document(outcome), "supervisor": pid})
        return 0
    if not console.out.terminal:
        console.row((info.id, info.name, pid))
    elif outcome.wake_at is not None:
        print_waiting_start(cli, outcome)
    else:
        console.write([[Span("✓ ", "ok"), Span(info.title, "bold"), f"  runs in the background, pid {pid}"]])
    if outcome.put_back is not None:
        console.say(Span("✓", "ok"), f" workspace restored as of @{outcome.put_back}")
    joined = [("join its terminal", shlex.join(info.attach))] if info.attach else []
    console.next(*joined, ("watch", f"relight tail {info.title} -f"), ("stop", f"relight stop {info.title}"))
    return 0


EXIT_CODE: Final = 6
"""of a run that was halted at a limit"""
_OVER_0: Final = click.FloatRange(min=0, min_open=True)


def limit_options(command: Callable[..., int]) -> Callable[..., int]:
    """`--budget`, `--budget-tokens` and `--time-limit`, given to the command as one value `limits`."""

    @functools.wraps(command)
    def limited(
        *args: Any, budget: float | None, budget_tokens: int | None, time_limit: float | None, **options: Any
    ) -> int:
        limits = allowance(budget=budget, budget_tokens=budget_tokens, time_limit=time_limit)
        return command(*args, limits=limits, **options)

    options_by_flag = {
        "--time-limit": (_OVER_0, "SECONDS", "Halt after this much working time, over all attempts."),
        "--budget-tokens": (click.IntRange(min=1), "N", "Halt after this many tokens."),
        "--budget": (_OVER_0, "COST", "Halt at this cost, in US dollars."),
    }
    for flag, (kind, metavar, text) in options_by_flag.items():
        click.option(flag, type=kind, metavar=metavar, help=text)(limited)
    return limited


def agents_of(_context: click.Context, _option: click.Parameter, given: str | None) -> tuple[str, ...] | None:
    """The names of agents in a list; None if none was given."""
    return None if given is None else tuple(name.strip() for name in given.split(",") if name.strip())


def failover_options(command: Callable[..., int]) -> Callable[..., int]:
    """`--fallback`, `--return`, `--windows` and `--quiet-hours`, given to the command as one value `failover`, the
    fields of a `RunPolicy`."""

    @functools.wraps(command)
    def chosen(
        *args: Any, fallback: tuple[str, ...], returns: bool, windows: int | None, hours: str | None, **options: Any
    ) -> int:
        failover = {"fallback": fallback, "returns": returns, "windows": windows, "quiet_hours": hours}
        return command(*args, failover=failover, **options)

    options: tuple[Callable[..., Any], ...] = (
        click.option("--quiet-hours", "hours", metavar="22:00-07:00", help="Local time in which it does not run."),
        click.option(
            "--windows", type=click.IntRange(min=1), metavar="N", help="Halt when it reaches its Nth usage limit."
        ),
        click.option("--return", "returns", is_flag=True, help="With --fallback: back when the first limit is over."),
        click.option(
            "--fallback",
            default="",
            callback=agents_of,
            metavar="A,...",
            help="Coding agents that continue after a usage limit, an overloaded provider or a refused key.",
        ),
    )
    for option in options:
        option(chosen)
    return chosen


def for_one(limits: Allowance, *, everything: bool) -> None:
    """UsageError if limits are combined with --all."""
    if everything and limits != NO_ALLOWANCE:
        raise UsageError("a limit applies to one session: name it")


def exit_code(info: SessionInfo, program: int) -> int:
    """The program's exit code, or EXIT_CODE if a limit halted it."""
    return EXIT_CODE if info.status == "halted" and is_limit(info.failure) else program


_FROM_NOW: Final = re.compile(r"\+(\d+(?:\.\d+)?)(s|m|min|h|d)")
_UNITS: Final = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}
_OF_DAY: Final = re.compile(r"(\d{1,2}):(\d{2})")


def moment_of(text: str | None, now: datetime) -> datetime | None:
    """Parse `+90s`, `+2h`, `22:30` (the next one, local time), or a date with a time."""
    if text is None:
        return None
    from_now, of_day = _FROM_NOW.fullmatch(text), _OF_DAY.fullmatch(text)
    if from_now:
        return now + timedelta(seconds=float(from_now[1]) * _UNITS[from_now[2]])
    try:
        if of_day:
            here = now.astimezone()
            then = here.replace(hour=int(of_day[1]), minute=int(of_day[2]), second=0, microsecond=0)
            return then if then > here else then + timedelta(days=1)
        found = datetime.fromisoformat(text)
        return found if found.tzinfo is not None else found.astimezone()
    except ValueError:
        raise UsageError(
            f"not a time: {text!r}", hints=["for example +90s, +2h, 22:30, 2026-12-24T08:00, 2026-12-24T08:00+01:00"]
        ) from None


def labels_of(text: str) -> list[str]:
    """Split a comma-separated list of labels."""
    return [one for one in text.split(",") if one]


def print_queued(cli: CliContext, info: SessionInfo) -> int:
    """Print the session, its queue and when it may start."""
    when = f", not before {moment(info.wake_at, cli.now())}" if info.wake_at is not None else ""
    if cli.console.out.terminal:
        text = f"  {short_id(info.id)} queued in {info.queue}{when}"
        cli.console.write([[Span("✓ ", "ok"), Span(info.title, "bold"), text]])
    else:
        cli.console.row((info.id, info.name, info.queue))
    cli.console.next(
        ("watch", f"relight tail {info.title} -f"),
        ("workers", "relight worker --list"),
        ("remove it from the queue", f"relight stop {info.title}"),
    )
    return 0
