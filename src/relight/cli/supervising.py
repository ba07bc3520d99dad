"""One supervised run in front of a person: signals in, milestones out, the program's own exit code at the end."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from relight.cli.door import Door
from relight.cli.ending import tell_end
from relight.cli.limits import exit_code
from relight.engine.supervise import Supervision

_ASKS_TO_STOP: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_in_front(door: Door, supervision: Supervision) -> int:
    """Run to the end. The exit code is the program's, as a shell would report it; 6 where a limit halted it."""
    began = door.now()
    with _forwarding(door, supervision):
        try:
            ended = supervision.run()
        finally:
            door.console.status("")
    tell_end(door.console, ended, seconds=(door.now() - began).total_seconds())
    return exit_code(ended.session, ended.exit.shell_code)


@contextmanager
def _forwarding(door: Door, supervision: Supervision) -> Iterator[None]:
    """Ctrl-C and its like go to the program: asked first, killed second."""

    def ask(number: int, frame: FrameType | None) -> None:
        supervision.interrupt(number)

    before = {number: signal.signal(number, ask) for number in _ASKS_TO_STOP}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
