"""The console: data goes to stdout, remarks go to stderr, and all output passes through this module.

Each span is made inert (text/safe.py) before it is coloured. On a terminal remarks are wrapped to its width; data is
laid out by the caller. In a pipe nothing is cut or wrapped.
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
"""width used for a stream that is not a terminal"""


class Console:
    """The output of one command."""

    def __init__(self, *, color: When = "auto", plain: bool = False) -> None:
        # In a locale that cannot encode a character (LANG=C) the character is escaped; the command must not fail.
        for stream in (sys.stdout, sys.stderr):
            reconfigure = getattr(stream, "reconfigure", None)
            if reconfigure is not None:
                reconfigure(errors="backslashreplace")
        self.out = style_of(sys.stdout, color=color, plain=plain)
        if not self.out.terminal:
            self.out = self.out._replace(width=UNCUT)
        self.err = style_of(sys.stderr, color=color, plain=plain)
        if not self.err.terminal:  # one remark, one line: it can be searched for and copied
            self.err = self.err._replace(width=UNCUT)
        self.hints = os.environ.get("RELIGHT_HINTS") != "0"
        self._has_status = False

    def write(self, lines: Iterable[Line], *, tabs: bool = False) -> None:
        """Write lines to stdout. `tabs`: do not escape tab characters."""
        for line in lines:
            self._put(sys.stdout, self.out, line, tabs=tabs)

    def row(self, fields: Iterable[Any]) -> None:
        """Write one record for a program: tab-separated fields, ISO times, nothing cut."""
        self._put(sys.stdout, self.out._replace(color=False), ["\t".join(map(_field, fields))], tabs=True)

    def document(self, value: Any, *, indent: int | None = 2) -> None:
        """Write one JSON document, in ASCII only: text from an agent cannot send control sequences to the terminal."""
        import json  # not at the top: shell completion waits for every import

        # json leaves DEL unescaped, although it is a control character.
        text = json.dumps(value, indent=indent, ensure_ascii=True, default=str).replace("\x7f", "\\u007f")
        print(text, file=sys.stdout, flush=indent is None)

    def say(self, *parts: Part, indent: int = 0) -> None:
        """Write one remark to stderr, wrapped to the width."""
        for line in wrapped(list(parts), self.err, indent=indent):
            self._put(sys.stderr, self.err, line)

    def lines(self, lines: Iterable[Line]) -> None:
        """Write lines that are already laid out to stderr."""
        for line in lines:
            self._put(sys.stderr, self.err, line)

    def flush(self) -> None:
        sys.stdout.flush()

    def status(self, text: str) -> None:
        """Set the status line, which stays until the next remark; empty removes it. Only on a terminal."""
        if not self.err.table or (not text and not self._has_status):
            return
        self._has_status = bool(text)
        # One cell less than the width: some terminals wrap when the last column is written.
        line = cut(printable(text, self.err), self.err.width - 1, ellipsis=self.err.ellipsis)
        _write_stderr(f"\r{rendered([Span(line, 'dim')], self.err)}\x1b[K\r")

    def bell(self) -> None:
        _write_stderr("\a")

    def next(self, *steps: tuple[str, str]) -> None:
        """Suggest up to two next commands as (purpose, command); RELIGHT_HINTS=0 turns them off."""
        if not self.hints or not self.err.terminal:
            return
        self._put(sys.stderr, self.err, [])
        for what, command in steps[:2]:
            self.say(Span(f"{what}:", "dim"), "  ", Span(command, "ref"))

    def ask(self, question: str) -> str:
        """Read an answer from the terminal; empty for Enter or end of input."""
        sys.stdout.flush()
        _write_stderr(inert(question) + " ")
        return sys.stdin.readline().strip()

    @property
    def can_ask(self) -> bool:
        """Are both stdin and stderr a terminal?"""
        return self.err.terminal and sys.stdin is not None and sys.stdin.isatty()

    def _put(self, stream: TextIO, style: Style, line: Line, *, tabs: bool = False) -> None:
        text = rendered(line, style, tabs=tabs) + "\n"
        if stream is sys.stderr:
            _write_stderr(f"\r\x1b[K{text}" if self._has_status else text)
            self._has_status = False
            return
        stream.write(text)
        # Only a terminal is flushed: `relight tail` of a long session into a pipe would be slow otherwise.
        if style.terminal:
            stream.flush()


def _write_stderr(text: str) -> None:
    """Write to stderr. A terminal that is gone must not end the run, so the error is ignored."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        return


def rendered(line: Line, style: Style, *, tabs: bool = False) -> str:
    """A line with colours, without trailing spaces unless `tabs`."""
    text = "".join(_painted(part, style, tabs) for part in line)
    return text if tabs else text.rstrip(" ")


def printable(text: str, style: Style) -> str:
    """The text as it will be printed, so that it can be measured."""
    text = inert(text)
    return text if style.unicode else text.translate(ASCII)


def _painted(part: Part, style: Style, tabs: bool) -> str:
    text, role = part if isinstance(part, Span) else Span(part)
    safe = "\t".join(printable(one, style) for one in text.split("\t")) if tabs else printable(text, style)
    if not style.color or not role or not safe.strip():
        return safe
    return f"\x1b[{SGR[role]}m{safe}\x1b[0m"


def wrapped(parts: Line, style: Style, *, indent: int = 0) -> list[Line]:
    """Wrap a remark to the width. Colours are dropped where it does not fit on one line."""
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
