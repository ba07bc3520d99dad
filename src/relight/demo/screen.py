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

from relight.cli.render.cells import cells, cut, pad
from relight.cli.render.console import printable, rendered, wrapped
from relight.cli.render.style import DEFAULT_WIDTH, Line, Role, Span, Style

NOTE: Final = 52
"""the column of a step's mark"""
VERDICT: Final = 76
"""the column of a verdict's mark"""
_ROLES: Final[dict[str, Role]] = {"✓": "ok", "✗": "bad", "†": "bad", "…": "warn"}
_WORDS: Final = {"✓": "ok", "✗": "bad", "†": "killed", "…": "open"}


class Screen:
    """Prints the demo; a silent one prints nothing and never pauses."""

    def __init__(self, style: Style, *, fast: bool, silent: bool = False) -> None:
        self._style = style._replace(width=min(style.width, DEFAULT_WIDTH))
        self._columns = not style.plain and style.width >= DEFAULT_WIDTH
        self._silent = silent
        self._part = 0
        self.paced = style.terminal and not fast and not silent

    def opening(self, *lines: Line) -> None:
        """Print the first lines and the hint about keys."""
        if self._style.plain:
            self.put(f"plain mode (from {self._style.plain})")
        for line in lines:
            self.put(*line)
        if self.paced and can_read_keys():
            self.put(Span("any key skips a pause", "dim"))

    def part(self, title: str, note: str = "") -> None:
        """Print the heading of the next part, with its number."""
        self._part += 1
        self.put()
        self.put(f"{self._part}  ", Span(title, "bold"), Span(f"  {note}" if note else "", "dim"))

    def line(self, *parts: Span | str) -> None:
        """Print a line of a part."""
        self.put("   ", *parts)

    def step(self, seq: int, kind: str, text: str, mark: str = "", note: str = "") -> None:
        """Print one step of the journal."""
        if not self._columns:
            words = ", ".join(filter(None, [_WORDS.get(mark, ""), note]))
            self.line(f"step {seq}, {kind}: {text}{': ' + words if words else ''}")
            return
        room = (NOTE if mark else DEFAULT_WIDTH) - 16
        what = cut(printable(text, self._style), room, ellipsis=self._style.ellipsis)
        tail: Line = [pad(what, room), " ", Span(mark, _ROLES[mark]), f" {note}"] if mark else [what]
        self.line(Span(f"@{seq:<3}", "ref"), f" {kind:<6} ", *tail)

    def verdict(self, text: str, mark: str) -> None:
        """Print a line with a mark in the last column."""
        if not self._columns:
            self.line(f"{text}: {_WORDS[mark]}")
            return
        self.line(pad(printable(text, self._style), VERDICT - 4), " ", Span(mark, _ROLES[mark]))

    def right(self, left: str, right: str) -> None:
        """Print two texts at both ends of a line."""
        room = max(VERDICT - 2 - cells(printable(left, self._style)), cells(right) + 2)
        self.line(left, pad(right, room, right=True) if self._columns else f"  {right}")

    def put(self, *parts: Span | str) -> None:
        """Print a line, wrapped to the width."""
        for line in wrapped(list(parts), self._style):
            self.put_whole(*line)

    def put_whole(self, *parts: Span | str) -> None:
        """Print a line without wrapping it, so that it can be copied."""
        if not self._silent:
            print(rendered(list(parts), self._style), flush=True)

    def pause(self, seconds: float) -> None:
        """Wait, or until a key is pressed."""
        if not self.paced:
            return
        if not can_read_keys():
            time.sleep(seconds)
            return
        readable, _, _ = select.select([sys.stdin], [], [], seconds)
        if readable:
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
