"""A supervised run in the foreground: forwards signals, prints milestones, returns the program's exit code."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import FrameType
from typing import Final

from relight.cli.app.context import CliContext
from relight.cli.app.limit_options import exit_code
from relight.cli.render.ending import print_end
from relight.history.documents import outcome_document, session_document
from relight.supervision.program import Supervision

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
