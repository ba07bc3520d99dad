"""The right to write a segment: a lock that ends with its process, and never outlives it."""

from __future__ import annotations

import fcntl


def lock(fd: int) -> None:
    """Take the right to write a segment; who looks whether it is free has it for a moment only."""
    fcntl.flock(fd, fcntl.LOCK_EX)


def try_lock(fd: int) -> bool:
    """Take the right to write a segment, if nobody has it."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def unlock(fd: int) -> None:
    fcntl.flock(fd, fcntl.LOCK_UN)
