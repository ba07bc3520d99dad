"""How a program ends by an uncaught `Waiting`: one line on stderr instead of a traceback, exit code 0.

The line says what the session waits for and which command answers. It needs `sys.excepthook`, which is replaced when
the first `Waiting` of the process is made and passes on everything else: a program that never waits keeps its hooks
untouched. Code that catches exceptions (a test runner, a server, a task group) gets `Waiting` as any other exception.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from relight.errors import Waiting


@functools.cache
def report_uncaught_waits() -> None:
    """Replace the hooks for uncaught exceptions, once in a process."""
    in_main, in_thread = sys.excepthook, threading.excepthook

    def main(kind: type[BaseException], error: BaseException, trace: Any) -> None:
        waits = waits_of(error)
        if not waits:
            in_main(kind, error, trace)
            return
        _print(waits)
        # The interpreter honours a SystemExit of this hook, and there is no other way to set the exit code. At an
        # interactive prompt it would end the prompt.
        if not hasattr(sys, "ps1") and not sys.flags.interactive:
            sys.exit(Waiting.exit_code)

    def thread(given: threading.ExceptHookArgs) -> None:
        waits = waits_of(given.exc_value)
        if waits:
            _print(waits)
        else:
            in_thread(given)

    sys.excepthook, threading.excepthook = main, thread


def waits_of(error: BaseException | None) -> list[Waiting]:
    """The waits in an exception that is nothing else: one, or a group of them alone (from a task group)."""
    if isinstance(error, Waiting):
        return [error]
    if not isinstance(error, BaseExceptionGroup):
        return []
    found = [waits_of(one) for one in error.exceptions]
    return [wait for waits in found for wait in waits] if all(found) else []


def _print(waits: Sequence[Waiting]) -> None:
    with suppress(OSError, ValueError, AttributeError):  # a closed or missing stderr; the wait is committed
        for wait in waits:
            if not wait.is_supervised:  # else its supervisor reports it
                print(wait.line, file=sys.stderr)
