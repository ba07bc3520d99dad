"""`python -m relight.processes.attend SESSION [RETRIES]`: one attempt on behalf of a worker, in a process of its own.

The worker holds the session's lease under the owner id in RELIGHT_ATTEND, and hands it over; where that is empty the
session's workspace is not on this machine: its files are brought first, then it is claimed here. A byte on the pipe on
standard input, or its end, means that the worker stops: the program is asked to end, and the session goes back in line.
SIGTERM comes where a whole service is stopped, the worker with it, and means the same.

With `--nursery` instead of a session it forks such a process for each session that its worker asks for, as
`relight.processes.attendants` says why.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType
from typing import TYPE_CHECKING, Final

from relight.errors import Conflict, LeaseHeld, LeaseLost, NotFound, QueueFull, RelightError, StoreError
from relight.processes.attendants import NURSERY, OWNER_VARIABLE, WORKER_VARIABLE
from relight.system.output_log import cleaned_output

if TYPE_CHECKING:
    from relight.supervision.program import Supervision

TAKEN_CODE: Final = 75
"""somebody else was faster, or the store is away: the worker looks again"""
_DRAIN_SIGNAL: Final = signal.SIGUSR1
_STDIN: Final = 0


def main(words: list[str]) -> int:
    """Attend to one session, to the end of its attempts. What it prints goes to a log, and is redacted on the way."""
    if words == [NURSERY]:
        from relight.processes.fork_server import fork_for_each

        words = fork_for_each()  # it comes back in each child, and there alone
    session, retries = words[0], int(words[1]) if len(words) > 1 else None
    owner, worker = os.environ.pop(OWNER_VARIABLE, ""), os.environ.get(WORKER_VARIABLE, "?")
    pipe = _taken_stdin()
    with cleaned_output():
        return _attended(session, worker, owner, retries, pipe)


def _attended(session: str, worker: str, owner: str, retries: int | None, pipe: int) -> int:
    import relight

    try:
        with relight.open() as rl:
            supervision = rl.attend(session, worker=worker, owner=owner or None, retries=retries)
            _listen(supervision, f"its worker {worker} stops", pipe)
            return supervision.run().exit.shell_code
    except (LeaseHeld, LeaseLost, Conflict, QueueFull, NotFound, StoreError) as error:
        return _told(error, TAKEN_CODE)
    except RelightError as error:
        return _told(error, error.exit_code)


def _told(error: RelightError, code: int) -> int:
    print(f"error: {error}", file=sys.stderr)
    return code


def _taken_stdin() -> int:
    """The pipe from the worker, out of the way of the program, which gets nothing to read."""
    pipe = os.dup(_STDIN)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, _STDIN)
    os.close(nothing)
    return pipe


def _listen(supervision: Supervision, why: str, pipe: int) -> None:
    """Signals, and the worker: each byte from it is a request to stop, and so is its end. The second is an order; but
    a signal and the worker's first byte are one request, which came on two ways."""
    came = {"pipe": 0, "signal": 0}

    def drain(number: int, frame: FrameType | None) -> None:
        way, other = ("pipe", "signal") if number == _DRAIN_SIGNAL else ("signal", "pipe")
        came[way] += 1
        if came[way] > came[other]:
            supervision.drain(why)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, _DRAIN_SIGNAL):
        signal.signal(number, drain)

    def watch() -> None:
        more = True
        while more:
            more = bool(os.read(pipe, 1))
            os.kill(os.getpid(), _DRAIN_SIGNAL)  # in the main thread, which it wakes

    threading.Thread(target=watch, name="relight-worker-pipe", daemon=True).start()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
