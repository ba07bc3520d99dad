"""`python -m relight.processes.supervisor FD`: the supervisor of a start in the background.

It reads what to start from its standard input (`background.Request`) and reports on the pipe FD, once: that its program
runs or its session is queued, or the error that refused the start. Its output is redacted and goes to its log.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

from relight.errors import RelightError
from relight.processes.background import StatusPipe, decode_request
from relight.supervision.watcher import NullWatcher
from relight.system.output_log import cleaned_output
from relight.telemetry.notices import print_notices

if TYPE_CHECKING:
    from relight.ports.runtime import Exit
    from relight.processes.background import Request
    from relight.supervision.program import Supervision

_STDIN: Final = 0
_STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main(words: Sequence[str]) -> int:
    """Supervise one session until its attempts are over; the exit code."""
    pipe = StatusPipe(int(words[0]))
    request = decode_request(sys.stdin.buffer.read())
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, _STDIN)
    os.close(nothing)
    print_notices()
    with cleaned_output():
        try:
            return _supervise(request, pipe)
        except RelightError as error:
            pipe.refused(error)
            print(f"error[{error.code}]: {error}", *error.evidence, *error.hints, sep="\n  ", file=sys.stderr)
            return error.exit_code


def _supervise(request: Request, pipe: StatusPipe) -> int:
    import relight

    with relight.open(create=False, ready=False) as opened:
        rl = opened if request.shown is None else opened.pinned(request.session, request.shown)
        supervision = rl.runs.supervise(request.pending or request.session, request.options)
        supervision.watcher = _Log()
        supervision.on_begun = pipe.started
        _forward_signals(supervision)
        ended = supervision.run()
        _log(f"{ended.session.title} {ended.session.status}: {ended.session.reason or ended.exit}")
        return ended.exit.shell_code


def _forward_signals(supervision: Supervision) -> None:
    """Pass a request to stop on to the program; the second one kills it."""
    for number in _STOP_SIGNALS:
        signal.signal(number, lambda received, frame: supervision.interrupt(received))


def _log(line: str) -> None:
    print(f"{datetime.now().astimezone():%H:%M}  {line}", file=sys.stderr)


class _Log(NullWatcher):
    """Writes deaths into the log, and nothing while the program runs: its own lines would be cut in two."""

    def died(self, exit: Exit, again_in_seconds: float | None) -> None:
        if again_in_seconds is not None:
            _log(f"died ({exit}); restarting in {again_in_seconds:.1f} s")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
