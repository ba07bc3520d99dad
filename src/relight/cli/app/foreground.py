"""One supervised run in front of a person: signals in, milestones out, the program's own exit code at the end."""

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
_ASKS_TO_STOP: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_in_foreground(cli: CliContext, supervision: Supervision, *, as_json: bool = False) -> int:
    """Run to the end. The exit code is the program's, as a shell would report it; 6 where a limit halted it.

    `as_json`: what came of the start and how it ended is one document on stdout; what the program prints is on stderr.
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
    """Whatever is started meanwhile prints to stderr: stdout is for the document."""
    kept = os.dup(_STDOUT)
    os.dup2(_STDERR, _STDOUT)
    try:
        yield
    finally:
        os.dup2(kept, _STDOUT)
        os.close(kept)


@contextmanager
def _forwarding(cli: CliContext, supervision: Supervision) -> Iterator[None]:
    """Ctrl-C and its like go to the program: asked first, killed second."""

    def ask(number: int, frame: FrameType | None) -> None:
        supervision.interrupt(number)

    before = {number: signal.signal(number, ask) for number in _ASKS_TO_STOP}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
