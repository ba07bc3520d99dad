"""Ends an agent when its supervisor dies, where the kernel does not (macOS): a process of its own beside the agent.

Standard library only. Arguments: the agent's pid, the supervisor's, the signal.

Its standard input is a pipe from the supervisor. A byte means that the agent has ended, so nothing is left to do. The
end of the pipe means that the supervisor has died, if it is no longer our parent. A supervisor that dies after it has
waited for the agent and before it wrote the byte leaves a few microseconds in which the pid would have to be reused.
"""

import os
import select
import signal
import subprocess
import sys
import time

POLL_SECONDS = 1.0
CLOSED_SECONDS = 0.02


def start(agent: int, number: int) -> "subprocess.Popen[bytes]":
    """Guard a child of this process: it gets this signal when this process dies."""
    words = [sys.executable, "-I", "-S", __file__, str(agent), str(os.getpid()), str(number)]
    # Without the variables that mark a session's processes: the guard is no orphan of it.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RELIGHT_")}
    nowhere = subprocess.DEVNULL
    return subprocess.Popen(
        words, env=environment, stdin=subprocess.PIPE, stdout=nowhere, stderr=nowhere, start_new_session=True
    )


def release(guard: "subprocess.Popen[bytes]") -> None:
    """The agent has ended: let the guard end too, and wait for it."""
    assert guard.stdin is not None
    try:
        guard.stdin.write(b".")
        guard.stdin.close()
    except OSError:
        pass  # it has ended before
    try:
        guard.wait(POLL_SECONDS)
    except subprocess.TimeoutExpired:
        return  # it ends by itself; the next Popen of this process waits for it


def main() -> None:
    """Wait for the end of the agent or of the supervisor; after the latter, signal the agent."""
    agent, supervisor, number = map(int, sys.argv[1:])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    is_open = True
    while os.getppid() == supervisor:
        if not is_open:
            time.sleep(CLOSED_SECONDS)  # the kernel closes a dead process's pipes a moment before its children notice
        elif select.select([0], [], [], POLL_SECONDS)[0]:
            if os.read(0, 1):
                return
            is_open = False
    try:
        os.kill(agent, number)
    except OSError:
        return  # it has ended, too


if __name__ == "__main__":
    main()
