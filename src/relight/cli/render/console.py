"""The console: stdout is data, stderr is talk, and nothing reaches either but through here.

Each span is made inert (plaintext.py) and only then coloured. On a terminal, talk is wrapped to the width; data is
laid out to the width by whoever prints it. In a pipe neither is cut or wrapped.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import Any, Final, TextIO

from relight.cli.render.cells import cells, cut, wrap
from relight.cli.render.style import ASCII, SGR, Line, Part, Span, Style, When, style_of
from relight.text.safe import inert

UNCUT: Final = 10_000
"""the width of data that nobody reads on a screen"""


class Console:
    """Where a verb writes to."""

    def __init__(self, *, color: When = "auto", plain: bool = False) -> None:
        for stream in (sys.stdout, sys.stderr):
            reconfigure = getattr(stream, "reconfigure", None)
            if reconfigure is not None:
                reconfigure(errors="backslashreplace")
        self.out = style_of(sys.stdout, color=color, plain=plain)
        if not self.out.terminal:
            self.out = self.out._replace(width=UNCUT)
        self.err = style_of(sys.stderr, color=color, plain=plain)
        if not self.err.terminal:  # a remark is one line there, so that it can be searched for and copied
            self.err = self.err._replace(width=UNCUT)
        self.hints = os.environ.get("RELIGHT_HINTS") != "0"
        self._has_status = False

    # -- data -------------------------------------------------------------------------------------------------

    def write(self, lines: Iterable[Line], *, tabs: bool = False) -> None:
        """Lines of data, on stdout. `tabs` keeps them, for text that a program reads."""
        for line in lines:
            self._put(sys.stdout, self.out, line, tabs=tabs)

    def row(self, fields: Iterable[Any]) -> None:
        """One record for a program: fields apart by tabs, times in ISO form, nothing cut."""
        self._put(sys.stdout, self.out._replace(color=False), ["\t".join(map(_field, fields))], tabs=True)

    def document(self, value: Any, *, indent: int | None = 2) -> None:
        """One JSON document. All of it is ASCII, so that a terminal has nothing to obey."""
        import json  # most of what is shown is not JSON, and completing a word waits for list_all import

        text = json.dumps(value, indent=indent, ensure_ascii=True, default=str).replace("\x7f", "\\u007f")
        print(text, file=sys.stdout, flush=indent is None)

    # -- talk -------------------------------------------------------------------------------------------------

    def say(self, *parts: Part, indent: int = 0) -> None:
        """One remark, on stderr, wrapped to the width."""
        for line in wrapped(list(parts), self.err, indent=indent):
            self._put(sys.stderr, self.err, line)

    def lines(self, lines: Iterable[Line]) -> None:
        """Lines that are laid out already, on stderr."""
        for line in lines:
            self._put(sys.stderr, self.err, line)

    def flush(self) -> None:
        """What was written is there now, in a pipe too."""
        sys.stdout.flush()

    def status(self, text: str) -> None:
        """One line that stays until something else is said; empty takes it away. Only where a person sees it."""
        if not self.err.table or (not text and not self._has_status):
            return
        self._has_status = bool(text)
        line = cut(printable(text, self.err), self.err.width - 1, ellipsis=self.err.ellipsis)
        _talk(f"\r{rendered([Span(line, 'dim')], self.err)}\x1b[K\r")

    def bell(self) -> None:
        """Once, when somebody is wanted."""
        _talk("\a")

    def next(self, *steps: tuple[str, str]) -> None:
        """What one would do now: (what for, command), at most two; RELIGHT_HINTS=0 silences them."""
        if not self.hints or not self.err.terminal:
            return
        self._put(sys.stderr, self.err, [])
        for what, command in steps[:2]:
            self.say(Span(f"{what}:", "dim"), "  ", Span(command, "ref"))

    def ask(self, question: str) -> str:
        """The answer of the person at the terminal; empty for a bare Enter or the end of input."""
        sys.stdout.flush()
        _talk(inert(question) + " ")
        return sys.stdin.readline().strip()

    @property
    def can_ask(self) -> bool:
        """Is there a person at both ends?"""
        return self.err.terminal and sys.stdin is not None and sys.stdin.isatty()

    def _put(self, stream: TextIO, style: Style, line: Line, *, tabs: bool = False) -> None:
        text = rendered(line, style, tabs=tabs) + "\n"
        if stream is sys.stderr:
            _talk(f"\r\x1b[K{text}" if self._has_status else text)
            self._has_status = False
            return
        stream.write(text)
        if style.terminal:
            stream.flush()


def _talk(text: str) -> None:
    """To a terminal that is gone nothing can be said; what is being done goes on all the same."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        return


def rendered(line: Line, style: Style, *, tabs: bool = False) -> str:
    """A line as the stream gets it; without spaces at its end, unless they are part of what a program reads."""
    text = "".join(_painted(part, style, tabs) for part in line)
    return text if tabs else text.rstrip(" ")


def printable(text: str, style: Style) -> str:
    """Text as this look shows it, so that it can be measured."""
    text = inert(text)
    return text if style.unicode else text.translate(ASCII)


def _painted(part: Part, style: Style, tabs: bool) -> str:
    text, role = part if isinstance(part, Span) else Span(part)
    safe = "\t".join(printable(one, style) for one in text.split("\t")) if tabs else printable(text, style)
    if not style.color or not role or not safe.strip():
        return safe
    return f"\x1b[{SGR[role]}m{safe}\x1b[0m"


def wrapped(parts: Line, style: Style, *, indent: int = 0) -> list[Line]:
    """A remark in lines of the width; colours survive only where it fits on one line, words always."""
    spans = [Span(one) if isinstance(one, str) else one for one in parts]
    spans = [Span(printable(one.text, style), one.role) for one in spans]
    whole = "".join(one.text for one in spans)
    if cells(whole) + indent <= style.width:
        return [[" " * indent, *spans]]
    first, *rest = wrap(whole, style.width - indent)
    rest = wrap(" ".join(rest), style.width - indent - 2) if rest else []
    lines: list[Line] = [[" " * indent + first]]
    return lines + [[" " * (indent + 2) + line] for line in rest]


def _field(value: Any) -> str:
    if value is None:
        return ""
    isoformat = getattr(value, "isoformat", None)
    text = isoformat(timespec="milliseconds") if isoformat is not None else str(value)
    return "\\t".join(text.split("\t"))
