"""`python -m relight.processes.attend SESSION [RETRIES]`: supervise one session for a worker, in a separate process.

The worker holds the session's lease under the owner id in RELIGHT_ATTEND, and this process takes it over. If that is
empty the session's workspace is not on this machine yet: the files are restored first, then the session is claimed.
A byte or EOF on the control pipe (standard input) means that the worker stops: the program is asked to end and the
session is requeued. SIGTERM, which a service manager sends to the worker's whole group, means the same.

With `--fork-server` instead of a session the process becomes the fork server (`relight.processes.attendants`).
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType
from typing import TYPE_CHECKING, Final

from relight.errors import Conflict, LeaseHeld, LeaseLost, NotFound, QueueFull, RelightError, StoreError
from relight.processes.attendants import FORK_SERVER, OWNER_VARIABLE, WORKER_VARIABLE
from relight.system.output_log import cleaned_output
from relight.telemetry.notices import print_notices

if TYPE_CHECKING:
    from relight.supervision.program import Supervision

TAKEN_CODE: Final = 75
"""exit code: another owner was faster, or the store is unavailable; the worker tries again later"""
_DRAIN_SIGNAL: Final = signal.SIGUSR1
_STDIN: Final = 0


def main(words: list[str]) -> int:
    """Supervise one session until its attempts are over; the exit code. Output is redacted before it is logged."""
    if words == [FORK_SERVER]:
        from relight.processes.fork_server import serve_forks

        words = serve_forks()  # returns in each forked child only
    session, retries = words[0], int(words[1]) if len(words) > 1 else None
    owner, worker = os.environ.pop(OWNER_VARIABLE, ""), os.environ.get(WORKER_VARIABLE, "?")
    pipe = _take_control_pipe()
    print_notices()
    with cleaned_output():
        return _supervise(session, worker, owner, retries, pipe)


def _supervise(session: str, worker: str, owner: str, retries: int | None, pipe: int) -> int:
    import relight

    try:
        with relight.open() as rl:
            supervision = rl.runs.attend(session, worker=worker, owner=owner or None, retries=retries)
            _drain_on_request(supervision, f"its worker {worker} stops", pipe)
            return supervision.run().exit.shell_code
    except RelightError as error:
        print(f"error: {error}", file=sys.stderr)
        lost_race = isinstance(error, LeaseHeld | LeaseLost | Conflict | QueueFull | NotFound | StoreError)
        return TAKEN_CODE if lost_race else error.exit_code


def _take_control_pipe() -> int:
    """Move the control pipe off standard input, which the supervised program inherits as /dev/null."""
    pipe = os.dup(_STDIN)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, _STDIN)
    os.close(nothing)
    return pipe


def _drain_on_request(supervision: Supervision, why: str, pipe: int) -> None:
    """Drain the supervision at each stop request from the worker or the service manager; the second one kills."""
    received = {"pipe": 0, "signal": 0}

    def drain(number: int, frame: FrameType | None) -> None:
        source, other = ("pipe", "signal") if number == _DRAIN_SIGNAL else ("signal", "pipe")
        received[source] += 1
        # When a service is stopped, the same request arrives twice: as a signal to our group and as a byte from the
        # worker. Counting both would turn one request into a kill, so only the source that is ahead counts.
        if received[source] > received[other]:
            supervision.drain(why)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, _DRAIN_SIGNAL):
        signal.signal(number, drain)

    def watch() -> None:
        more = True
        while more:
            more = bool(os.read(pipe, 1))
            os.kill(os.getpid(), _DRAIN_SIGNAL)  # handled in the main thread, whose sleep it interrupts

    threading.Thread(target=watch, name="relight-worker-pipe", daemon=True).start()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
