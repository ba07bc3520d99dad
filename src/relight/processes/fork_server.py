"""The nursery: a process that has imported everything, and forks one attendant for each session it is asked for.

It has no thread and no open store, and waits for two things: requests of its worker, and the ends of its children, of
which it says how they ended. It leaves when its worker does; its children then have a pipe of their own to see it by.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import socket
import sys
from collections.abc import Iterable
from typing import Final

import msgspec

from relight import wiring
from relight.processes.attendants import FILES, LENGTH_BYTES, OWNER_VARIABLE, ForkRequest

_STDIN: Final = 0
_IGNORED: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""what is meant for the worker's group, or for a whole service: the worker decides what becomes of its children"""


def fork_for_each() -> list[str]:
    """Serve until the worker is gone, and then leave. In a child: the words that it is to be started with."""
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    wiring.import_for_attending()
    gc.collect()
    gc.freeze()
    ended, wakes = os.pipe()
    for end in (ended, wakes):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    children: dict[int, int] = {}
    """pid to the pipe on which its end is told"""
    with socket.socket(fileno=os.dup(_STDIN)) as worker:
        while True:
            ready, _, _ = select.select([worker.fileno(), ended], [], [])
            if ended in ready:
                _tell_ends(children, ended)
            if worker.fileno() in ready:
                asked = _request(worker)
                if asked is None:
                    sys.exit(0)
                birth, files = asked
                try:
                    pid = os.fork()
                except OSError as error:
                    os.write(files[2], f"error: no process for it: {error.strerror}\n".encode())
                    _close(files)
                    continue
                if not pid:
                    break
                children[pid] = files[1]
                _close((files[0], files[2]))
    _init_child(files, [*children.values(), ended, wakes])
    os.environ[OWNER_VARIABLE] = birth.owner
    return birth.words


def _request(worker: socket.socket) -> tuple[ForkRequest, list[int]] | None:
    """What is asked for, with its files; None where the worker is gone."""
    length, files, _, _ = socket.recv_fds(worker, LENGTH_BYTES, FILES, socket.MSG_WAITALL)
    if len(length) < LENGTH_BYTES or len(files) < FILES:
        return None
    body = worker.recv(int.from_bytes(length, "big"), socket.MSG_WAITALL)
    return msgspec.json.decode(body, type=ForkRequest), files


def _tell_ends(children: dict[int, int], ended: int) -> None:
    """Reap whoever has ended; its worker reads the code, and then the end of the pipe."""
    with contextlib.suppress(BlockingIOError):
        while os.read(ended, 4096):
            pass
    while children:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        pipe = children.pop(pid)
        with contextlib.suppress(BrokenPipeError):
            os.write(pipe, str(os.waitstatus_to_exitcode(status)).encode())
        os.close(pipe)


def _init_child(files: list[int], others: list[int]) -> None:
    """A process like one that was started: a group of its own, signals as at a start, three files and its word."""
    os.setpgid(0, 0)
    signal.set_wakeup_fd(-1)
    for number in (*_IGNORED, signal.SIGCHLD):
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    _close(others)
    pipe, its_word, log = files
    os.set_inheritable(its_word, False)  # it stays open here, and nowhere else: its end is the end of this process
    for file, place in ((pipe, 0), (log, 1), (log, 2)):
        os.dup2(file, place)
    _close((pipe, log))


def _close(files: Iterable[int]) -> None:
    for file in files:
        os.close(file)
