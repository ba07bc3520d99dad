"""Job control for our terminal, as a shell does it, and pipes or ptys that match our own output streams."""

from __future__ import annotations

import fcntl
import os
import signal
import termios


def in_foreground() -> bool:
    """Whether our process group may read from the terminal."""
    try:
        return os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False


def give_terminal(group: int) -> None:
    """Make a process group the foreground group of our terminal."""
    # A background process that changes the foreground group is stopped by SIGTTOU unless it ignores that.
    before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    try:
        os.tcsetpgrp(0, group)
    except OSError:
        return  # the terminal is gone, or the group is
    finally:
        signal.signal(signal.SIGTTOU, before)


def channel_like(ours: int) -> tuple[int, int]:
    """Our end and the child's end of a stream to the child: a pty if `ours` is a terminal, else a pipe."""
    if not os.isatty(ours):
        return os.pipe()
    master, slave = os.openpty()
    mode = termios.tcgetattr(slave)
    mode[1] &= ~termios.OPOST  # newlines are translated by our own terminal already
    termios.tcsetattr(slave, termios.TCSANOW, mode)
    resize(master, ours)
    return master, slave


def resize(channel: int, ours: int) -> None:
    """Give a channel the window size of our terminal; nothing if either is no terminal."""
    try:
        size = fcntl.ioctl(ours, termios.TIOCGWINSZ, b"\0" * 8)
        if fcntl.ioctl(channel, termios.TIOCGWINSZ, b"\0" * 8) != size:
            fcntl.ioctl(channel, termios.TIOCSWINSZ, size)
    except OSError:
        return
