"""What only the Linux kernel does for the parent of processes. Elsewhere each call does nothing and says so."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from typing import Any, Final

from relight.system.platform import Platform, this_platform

_SET_PDEATHSIG, _GET_PDEATHSIG, _SET_CHILD_SUBREAPER = 1, 2, 36
_FAILED: Final = -1


def become_subreaper(platform: Platform | None = None) -> bool:
    """Become the parent of every descendant whose parent dies; whether the kernel did that. Idempotent."""
    prctl = _prctl(platform)
    return prctl is not None and prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != _FAILED


def end_with_parent(number: int, platform: Platform | None = None) -> Callable[[], None] | None:
    """A pre-exec hook that has the kernel send a child this signal when its parent, this process, dies; None if the
    kernel cannot."""
    prctl, parent, now = _prctl(platform), os.getpid(), ctypes.c_int()
    # Tried in this process, by setting what is set: in the child a failure could not be reported.
    if prctl is None or prctl(_GET_PDEATHSIG, ctypes.byref(now), 0, 0, 0) == _FAILED:
        return None
    if prctl(_SET_PDEATHSIG, now.value, 0, 0, 0) == _FAILED:
        return None

    def between_fork_and_exec() -> None:
        prctl(_SET_PDEATHSIG, number, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)  # the parent died before prctl took effect, so no signal will come

    return between_fork_and_exec


def _prctl(platform: Platform | None) -> Any:
    """The C function; None on another kernel."""
    if not (platform or this_platform()).is_linux:
        return None
    return ctypes.CDLL(None, use_errno=True).prctl
