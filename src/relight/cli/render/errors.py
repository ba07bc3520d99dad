"""Errors as printed: message with code, evidence, hints. A traceback only with --debug."""

from __future__ import annotations

import errno
import os
import resource
import traceback
from typing import Final

import click

from relight.cli.render.console import Console, wrapped
from relight.cli.render.style import Line, Span, Style
from relight.errors import RelightError, StoreFull, StoreUnavailable, UsageError

_MAX_EVIDENCE: Final = 20
_TYPES: Final = (
    ("float range", "a number"),
    ("integer range", "a whole number"),
    ("float", "a number"),
    ("integer", "a whole number"),
)
"""types of options as click names them, and for people"""


def lines_of(error: RelightError, style: Style) -> list[Line]:
    """The lines of one error."""
    lines = wrapped([Span("error:", "bad"), f" {_first_line(error.message)} ({error.code})"], style)
    for evidence in error.evidence[:_MAX_EVIDENCE]:
        lines += wrapped([evidence], style, indent=2)
    if error.hints:
        lines.append([])
    for hint in error.hints:
        lines += wrapped([Span("hint:", "ref"), f" {hint}"], style)
    return lines


def print_error(error: BaseException, console: Console, *, debug: bool) -> int:
    """Print an exception to stderr and return the exit code."""
    known = error if isinstance(error, RelightError) else _wrapped(error)
    if debug:
        console.lines([[line] for line in "".join(traceback.format_exception(error)).splitlines()])
    console.lines(lines_of(known, console.err))
    return known.exit_code


def _wrapped(error: BaseException) -> RelightError:
    if isinstance(error, click.UsageError):
        return _as_usage(error)
    if isinstance(error, click.ClickException):
        return UsageError(_normalized(error.format_message()))
    if isinstance(error, OSError) and (error.strerror or error.errno):
        return _from_os_error(error)
    hints = ["for the traceback: add --debug", "this is a bug in relight; committed steps are safe"]
    return RelightError(f"unexpected {type(error).__name__}: {error}", hints=hints)


def _from_os_error(error: OSError) -> RelightError:
    """A RelightError with a remedy for a full disk or too many open files; else the system's own text."""
    where = f"{error.filename}: " if error.filename else ""
    # A full disk and exhausted descriptors have an error of their own, because the user can do something about them.
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StoreFull(str(error.filename or "the disk"))
    if error.errno in (errno.EMFILE, errno.ENFILE):
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        what = f"{where}too many open files: the limit of this process is {limit}"
        return StoreUnavailable(what, hints=["raise the limit and run again: ulimit -n 1024"])
    if error.strerror:
        return RelightError(f"{where}{error.strerror.lower()}", hints=["for the traceback: add --debug"])
    return RelightError(f"{where}{os.strerror(error.errno or 0).lower()}")


def _as_usage(error: click.UsageError) -> UsageError:
    hints = list(getattr(error, "cures", ()))
    path = error.ctx.command_path if error.ctx is not None else "relight"
    return UsageError(_normalized(error.format_message()), hints=hints or [f"{path} --help"])


def _normalized(text: str) -> str:
    """Click's message in the form of our errors: one line, lower case, no full stop, and no names of its types."""
    text = " ".join(text.split()).rstrip(".")
    for typed, said in _TYPES:
        text = text.replace(f"is not a valid {typed}", f"is not {said}")
    return text[:1].lower() + text[1:]


def _first_line(text: str) -> str:
    return text.splitlines()[0] if text.strip() else "(no text)"
