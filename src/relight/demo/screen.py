"""The demo's output: lines of at most 80 columns, readable without colour, with pauses that a key skips.

In plain mode and on narrow terminals there are no columns, and marks are printed as words.
"""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from relight.cli.render.cells import cut, pad
from relight.cli.render.console import printable, rendered, wrapped
from relight.cli.render.style import DEFAULT_WIDTH, Part, Role, Span, Style

_NOTE: Final = 52
_VERDICT: Final = 76
"""the columns of a step's mark and of a verdict's mark"""
_MARKS: Final[dict[str, tuple[Role, str]]] = {
    "✓": ("ok", "ok"),
    "✗": ("bad", "bad"),
    "†": ("bad", "killed"),
    "!": ("warn", "unknown"),
    "…": ("warn", "open"),
}


class Screen:
    """Prints the demo; a silent one prints nothing and never pauses."""

    def __init__(self, style: Style, *, fast: bool, silent: bool = False) -> None:
        self._style = style._replace(width=min(style.width, DEFAULT_WIDTH))
        self._columns = not style.plain and style.width >= DEFAULT_WIDTH
        self._silent = silent
        self._part = 0
        self.paced = style.terminal and not fast and not silent
        if style.plain:
            self.put(f"plain mode (from {style.plain})")

    def part(self, title: str, note: str = "") -> None:
        """Print the heading of the next part, with its number."""
        self._part += 1
        self.put()
        self.put(f"{self._part}  ", Span(title, "bold"), Span(f"  {note}" if note else "", "dim"))

    def step(self, seq: int, kind: str, text: str, mark: str = "", note: str = "") -> None:
        """Print one step of the journal."""
        if not self._columns:
            words = ", ".join(filter(None, [_MARKS[mark][1] if mark else "", note]))
            self.put(f"   step {seq}, {kind}: {text}{': ' + words if words else ''}")
            return
        room = (_NOTE if mark else DEFAULT_WIDTH) - 16
        what = cut(printable(text, self._style), room, ellipsis=self._style.ellipsis)
        tail: list[Part] = [pad(what, room), " ", Span(mark, _MARKS[mark][0]), f" {note}"] if mark else [what]
        self.put("   ", Span(f"@{seq:<3}", "ref"), f" {kind:<6} ", *tail)

    def verdict(self, text: str, holds: bool) -> None:
        """Print a line of a part with its mark in the last column."""
        mark = "✓" if holds else "✗"
        if self._columns:
            self.put("   ", pad(printable(text, self._style), _VERDICT - 4), " ", Span(mark, _MARKS[mark][0]))
        else:
            self.put(f"   {text}: {_MARKS[mark][1]}")

    def put(self, *parts: Part, whole: bool = False) -> None:
        """Print a line, wrapped to the width; not wrapped if `whole`, so that it can be copied."""
        for line in [list(parts)] if whole else wrapped(list(parts), self._style):
            if not self._silent:
                print(rendered(line, self._style), flush=True)

    def pause(self, seconds: float) -> None:
        """Wait, or until a key is pressed."""
        if self.paced and not can_read_keys():
            time.sleep(seconds)
        elif self.paced and select.select([sys.stdin], [], [], seconds)[0]:
            os.read(sys.stdin.fileno(), 64)


def can_read_keys() -> bool:
    """Is stdin a terminal that this process may read? A background process would be stopped by SIGTTIN."""
    try:
        return sys.stdin.isatty() and os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except (AttributeError, OSError, ValueError):  # no stdin at all, none with a terminal, closed
        return False


@contextmanager
def single_keys() -> Iterator[None]:
    """Read keys one by one without echo; Ctrl-C still interrupts. Pending input is discarded at the end."""
    if not can_read_keys():
        yield
        return
    import termios
    import tty

    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)
    tty.setcbreak(keyboard)
    try:
        yield
    finally:
        termios.tcsetattr(keyboard, termios.TCSAFLUSH, before)
