"""`python -m relight.cli.attend SESSION [RETRIES]`: one attempt on behalf of a worker, in a process of its own.

The worker holds the session's lease under the owner id in RELIGHT_ATTEND, and hands it over; where that is empty the
session's workspace is not on this machine: its files are brought first, then it is claimed here. SIGUSR1, or the end of
the pipe on standard input, means that the worker stops: the program is asked to end, and the session goes back in line.
SIGTERM comes from `relight stop`, and ends the session.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType
from typing import TYPE_CHECKING, Final

from relight.errors import Conflict, LeaseHeld, LeaseLost, NotFound, QueueFull, RelightError, StoreError
from relight.fleet.attending import DRAIN_SIGNAL, OWNER_VARIABLE, WORKER_VARIABLE

if TYPE_CHECKING:
    from relight.engine.supervise import Supervision

TAKEN_CODE: Final = 75
"""somebody else was faster, or the store is away: the worker looks again"""
_STDIN: Final = 0


def main(words: list[str]) -> int:
    """Attend to one session, to the end of its attempts."""
    import relight

    session, retries = words[0], int(words[1]) if len(words) > 1 else None
    owner, worker = os.environ.pop(OWNER_VARIABLE, ""), os.environ.get(WORKER_VARIABLE, "?")
    pipe = _taken_stdin()
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
    """Signals, and the end of the worker."""

    def stop(number: int, frame: FrameType | None) -> None:
        supervision.interrupt(number)

    def drain(number: int, frame: FrameType | None) -> None:
        supervision.drain(why)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, stop)
    signal.signal(DRAIN_SIGNAL, drain)

    def watch() -> None:
        while os.read(pipe, 1):
            pass
        os.kill(os.getpid(), DRAIN_SIGNAL)

    threading.Thread(target=watch, name="relight-worker-pipe", daemon=True).start()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
