"""Fork server: a process with all imports done that forks one attendant per session its worker asks for.

It waits for fork requests on a socket and for the exits of its children, whose codes it writes to their status pipes.
It exits when its worker does; its children notice that by the end of their own pipe.
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


def serve_forks() -> list[str]:
    """Serve until the worker is gone, then exit. Returns only in a forked child: the arguments of its attendant."""
    # These are sent to the whole service or process group. The worker decides which of its sessions stop, so the
    # fork server must survive until the worker closes the socket.
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    wiring.import_for_attending()
    # Without freeze the first collection in a child would touch every object and so copy every inherited page.
    gc.collect()
    gc.freeze()
    ended, wakes = os.pipe()
    for end in (ended, wakes):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    children: dict[int, int] = {}
    """pid to status pipe"""
    with socket.socket(fileno=os.dup(_STDIN)) as worker:
        while True:
            ready, _, _ = select.select([worker.fileno(), ended], [], [])
            if ended in ready:
                _report_exits(children, ended)
            if worker.fileno() in ready:
                received = _receive(worker)
                if received is None:
                    sys.exit(0)
                request, files = received
                try:
                    pid = os.fork()
                except OSError as error:
                    # Closing the status pipe without a code is the report: the worker reads it as a lost attendant.
                    os.write(files[2], f"error: cannot fork: {error.strerror}\n".encode())
                    _close(files)
                    continue
                if not pid:
                    break
                children[pid] = files[1]
                _close((files[0], files[2]))
    _init_child(files, [*children.values(), ended, wakes])
    os.environ[OWNER_VARIABLE] = request.owner
    return request.words


def _receive(worker: socket.socket) -> tuple[ForkRequest, list[int]] | None:
    """The next request with its descriptors; None when the worker is gone."""
    length, files, _, _ = socket.recv_fds(worker, LENGTH_BYTES, FILES, socket.MSG_WAITALL)
    if len(length) < LENGTH_BYTES or len(files) < FILES:
        return None
    body = worker.recv(int.from_bytes(length, "big"), socket.MSG_WAITALL)
    return msgspec.json.decode(body, type=ForkRequest), files


def _report_exits(children: dict[int, int], ended: int) -> None:
    """Reap children that have exited; write each code to its status pipe and close that."""
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
    """Make the forked child look freshly started: own group, default signals, stdin/stdout/stderr, status pipe."""
    os.setpgid(0, 0)
    signal.set_wakeup_fd(-1)
    for number in (*_IGNORED, signal.SIGCHLD):
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    _close(others)
    pipe, status, log = files
    # The status pipe stays open in this process but not in the program it starts: EOF must mean this process ended.
    os.set_inheritable(status, False)
    for file, target in ((pipe, 0), (log, 1), (log, 2)):
        os.dup2(file, target)
    _close((pipe, log))


def _close(files: Iterable[int]) -> None:
    for file in files:
        os.close(file)
