"""Reaps orphans that are re-parented to us (child subreaper).

As a child subreaper we become the parent of every descendant whose parent dies, even if it has its own terminal
session. So orphans of an agent stay findable among our children while they live, and we must wait for them when they
exit. Only orphans are waited for, each by its pid: children that this program started are waited for by their starter.
A zombie counts as an orphan if it was seen alive with a session's marker in its environment, if its group or terminal
session belongs to an agent of ours, or if it is of a foreign terminal session and was not waited for in an hour.

Where the kernel has no subreaper, orphans go to init, which reaps them, and are found by their marker. macOS hides the
environment of its own programs (/bin/sh), so there the descendants of agents are remembered while they have parents.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from typing import Final

from relight.system.linux_calls import become_subreaper
from relight.system.process_facts import Facts
from relight.system.processes import (
    children_of_ours,
    environment_of,
    group_of,
    is_zombie,
    living,
    marker,
    session_of,
    start_of,
)

_SCAN_SECONDS: Final = 1.0
_FOLLOW_SECONDS: Final = 3.0
"""between two looks at all processes of the machine, which take some 30 ms"""
FOREIGN_SECONDS: Final = 3600.0
"""time left to other code of this program to wait for a child of its own"""


class Subreaper:
    """The orphans of this process. One instance per process, because the kernel attribute is per process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._active = False
        self._started: dict[int, str] = {}
        """children that their ProcessChild waits for, and their sessions"""
        self._descendants: dict[int, tuple[str, str]] = {}
        """start time and session of each; empty where we are a subreaper"""
        self._groups: set[int] = set()
        self._markers: set[bytes] = set()
        self._orphans: set[int] = set()
        self._foreign: dict[int, float] = {}
        self._scanned = 0.0
        self.foreign_seconds = FOREIGN_SECONDS

    def begin(self) -> None:
        """Become a child subreaper, where the kernel has that. Idempotent; called before each spawn."""
        self._active = become_subreaper()

    def started(self, pid: int, session: str) -> None:
        """Register a child that its ProcessChild waits for, and its session's marker."""
        with self._lock:
            self._started[pid] = session
            self._groups.add(pid)
            self._markers |= {marker(session)} if session else set()

    def ended(self, pid: int) -> None:
        """The child was waited for, so its pid may be reused from here on."""
        with self._lock:
            self._started.pop(pid, None)

    def reap(self, *, now: bool = False) -> int:
        """Wait for orphans that have exited; how many there were. Without `now` at most once a second."""
        moment = time.monotonic()
        with self._lock:
            if not now and moment - self._scanned < (_SCAN_SECONDS if self._active else _FOLLOW_SECONDS):
                return 0
            self._scanned = moment
            if not self._active:
                self._descendants = descendants(living(), self._started, self._descendants)
                return 0
            children = [pid for pid in children_of_ours() if pid not in self._started]
            self._orphans &= set(children)
            self._foreign = {pid: since for pid, since in self._foreign.items() if pid in children}
            return sum(self._reap(pid, moment) for pid in children)

    def left_by(self, session: str) -> list[int]:
        """The living processes that were seen below an agent of this session and show no environment."""
        with self._lock:
            known = [(pid, start) for pid, (start, of) in self._descendants.items() if of == session]
        return [pid for pid, start in known if start_of(pid) == start and not environment_of(pid)]

    def _reap(self, pid: int, moment: float) -> bool:
        if not is_zombie(pid):
            # A zombie has no environment any more, so orphans are recognised, with their groups, while they live.
            if not self._markers.isdisjoint(environment_of(pid)):
                self._orphans.add(pid)
                self._groups |= {group_of(pid), session_of(pid)} - {os.getpgrp(), os.getsid(0)}
            return False
        if pid in self._orphans or group_of(pid) in self._groups or session_of(pid) in self._groups:
            return _wait(pid)
        # In our own terminal session it may be a child of other code in this program, such as a subprocess call of
        # the embedding application: waiting for it here would steal its exit status.
        if session_of(pid) == os.getsid(0):
            return False
        return moment - self._foreign.setdefault(pid, moment) > self.foreign_seconds and _wait(pid)


def descendants(
    now: Mapping[int, Facts], roots: Mapping[int, str], before: Mapping[int, tuple[str, str]]
) -> dict[int, tuple[str, str]]:
    """Start time and session of each living process that has, or had when seen before, one of `roots` above it."""
    found = {pid: known for pid, known in before.items() if pid in now and now[pid].start == known[0]}
    sessions = {**{pid: session for pid, (_, session) in found.items()}, **roots}
    below = [pid for pid, facts in now.items() if pid not in sessions and facts.parent in sessions]
    while below:
        for pid in below:
            sessions[pid] = sessions[now[pid].parent]
            found[pid] = now[pid].start, sessions[pid]
        below = [pid for pid, facts in now.items() if pid not in sessions and facts.parent in sessions]
    return found


def _wait(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return False


SUBREAPER: Final = Subreaper()
