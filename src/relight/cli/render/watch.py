"""`--watch`: redraw in place, once a second."""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from relight.cli.render.console import Console, rendered
from relight.cli.render.style import Line
from relight.errors import UsageError

_SECONDS: Final = 1.0
_ENTER: Final = "\x1b[?1049h\x1b[?25l"
_LEAVE: Final = "\x1b[?25h\x1b[?1049l"


def watch(console: Console, draw: Callable[[], list[Line]]) -> int:
    """Redraw until q, Ctrl-C or end of input."""
    if not console.out.table or not sys.stdin.isatty():
        raise UsageError("--watch needs a terminal", hints=["leave it out, or follow the steps: relight tail REF -f"])
    with _screen():
        while True:
            height = os.get_terminal_size(sys.stdout.fileno()).lines
            lines = [rendered(line, console.out) for line in draw()][: height - 1]
            foot = "q quits"
            # No clear screen, which would flicker: the cursor moves home and each line is erased to its end.
            sys.stdout.write("\x1b[H" + "".join(f"{line}\x1b[K\r\n" for line in lines) + f"{foot}\x1b[K\x1b[J")
            sys.stdout.flush()
            ready, _, _ = select.select([sys.stdin], [], [], _SECONDS)
            if ready and os.read(sys.stdin.fileno(), 64).lower() in (b"", b"q", b"\x03", b"\x1b"):
                return 0


@contextmanager
def _screen() -> Iterator[None]:
    """The alternate screen without line buffering; the terminal is restored at the end."""
    before = termios.tcgetattr(sys.stdin)
    sys.stdout.write(_ENTER)
    try:
        tty.setcbreak(sys.stdin)
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
        sys.stdout.write(_LEAVE)
        sys.stdout.flush()
