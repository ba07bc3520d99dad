"""Our terminal, handed over and taken back as a shell would; and channels that look to a program like ours."""

from __future__ import annotations

import fcntl
import os
import signal
import termios


def in_foreground() -> bool:
    """May we read from the terminal now?"""
    try:
        return os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False


def give_terminal(group: int) -> None:
    """As a shell does it; a background process that sets the foreground is stopped unless it ignores SIGTTOU."""
    before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    try:
        os.tcsetpgrp(0, group)
    except OSError:
        return  # the terminal is gone, or the group is
    finally:
        signal.signal(signal.SIGTTOU, before)


def channel_like(ours: int) -> tuple[int, int]:
    """Our end and the child's end of a stream that passes through us: a terminal where our own is one."""
    if not os.isatty(ours):
        return os.pipe()
    near, far = os.openpty()
    mode = termios.tcgetattr(far)
    mode[1] &= ~termios.OPOST  # our own terminal does this; twice would show
    termios.tcsetattr(far, termios.TCSANOW, mode)
    resize(near, ours)
    return near, far


def resize(channel: int, ours: int) -> None:
    """Give a channel the size of our terminal; nothing where either is none."""
    try:
        size = fcntl.ioctl(ours, termios.TIOCGWINSZ, b"\0" * 8)
        if fcntl.ioctl(channel, termios.TIOCGWINSZ, b"\0" * 8) != size:
            fcntl.ioctl(channel, termios.TIOCSWINSZ, size)
    except OSError:
        return
