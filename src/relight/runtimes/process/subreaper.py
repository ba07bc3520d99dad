"""What a dead agent leaves behind comes to us, and we bury it.

We are a child subreaper: a process whose parent died becomes our child, not init's, wherever it went (a session of its
own included). So it stays in our family while it lives, and somebody must ask for its exit when it has ended. Only
such processes are asked for, each by its pid: what this program itself started is waited for by whoever started it.
A dead one is known as adopted when it was seen alive with the mark of a session of ours, when its group or terminal
session is one of an agent of ours, or when it is of a foreign terminal session and nobody has asked for a while.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
from typing import Final

from relight.system.processes import children_of_ours, environment_of, group_of, is_zombie, marker, session_of

_PR_SET_CHILD_SUBREAPER: Final = 36
_LOOK_SECONDS: Final = 1.0
STRANGE_SECONDS: Final = 3600.0
"""so long somebody else of this program may take to ask for the exit of a child of its own"""


class Subreaper:
    """The processes that come to us. One for the whole program, as the kernel sees it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._started: set[int] = set()
        """children of ours that are waited for elsewhere"""
        self._groups: set[int] = set()
        self._marks: set[bytes] = set()
        self._known: set[int] = set()
        self._strange: dict[int, float] = {}
        self._looked = 0.0
        self.strange_seconds = STRANGE_SECONDS

    def begin(self) -> None:
        """Before a spawn, and again is no harm. No error where the system has no such thing."""
        if sys.platform.startswith("linux"):
            ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def started(self, pid: int, session: str) -> None:
        """A child of ours that its own object waits for."""
        with self._lock:
            self._started.add(pid)
            self._groups.add(pid)
            self._marks |= {marker(session)} if session else set()

    def ended(self, pid: int) -> None:
        """It was waited for."""
        with self._lock:
            self._started.discard(pid)

    def bury(self, *, now: bool = False) -> int:
        """Ask for the exits of adopted processes that have ended; how many there were."""
        moment = time.monotonic()
        with self._lock:
            if not now and moment - self._looked < _LOOK_SECONDS:
                return 0
            self._looked = moment
            children = [pid for pid in children_of_ours() if pid not in self._started]
            self._known &= set(children)
            self._strange = {pid: since for pid, since in self._strange.items() if pid in children}
            return sum(self._bury(pid, moment) for pid in children)

    def _bury(self, pid: int, moment: float) -> bool:
        if not is_zombie(pid):
            if not self._marks.isdisjoint(environment_of(pid)):
                self._known.add(pid)
                self._groups |= {group_of(pid), session_of(pid)} - {os.getpgrp(), os.getsid(0)}
            return False
        if pid in self._known or group_of(pid) in self._groups or session_of(pid) in self._groups:
            return _waited(pid)
        if session_of(pid) == os.getsid(0):
            return False
        return moment - self._strange.setdefault(pid, moment) > self.strange_seconds and _waited(pid)


def _waited(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return False


ADOPTED: Final = Subreaper()
