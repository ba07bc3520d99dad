"""Entry point of the `relight` command."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from relight.system.platform import Platform


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    # What is imported never becomes garbage. To look for garbage in it every 700 objects, and several times at exit,
    # would take a tenth of the time of a short command.
    gc.set_threshold(50_000)
    atexit.register(gc.freeze)
    _open_missing_streams()
    _import_msgspec_fast()
    # Completion is answered before click and the verbs are imported: they take longer than the answer.
    if "_RELIGHT_COMPLETE" in os.environ:
        from relight.cli.app.complete import answered

        if answered(os.environ):
            return 0
    words = sys.argv[1:] if arguments is None else arguments
    from relight.system.platform import Platform

    if list(words) != ["--version"] and (code := refused_on(Platform(sys.platform))):
        return code
    from relight.cli.app.group import run

    return run(words)


def _open_missing_streams() -> None:
    """Open the null device for each standard stream that the caller closed (`>&-`). Python has none there, and the next
    file that is opened would become standard output."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)
            if null != number:
                os.dup2(null, number)
                os.close(null)
            os.set_inheritable(number, True)
            stream = open(number, "r" if number == 0 else "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - for good
            setattr(sys, name, stream)


def refused_on(platform: Platform) -> int:
    """The exit code on a platform that relight does not run on, once that is said; else 0."""
    from relight.errors import UsageError
    from relight.system.platform import check_supported

    try:
        check_supported(platform)
    except UsageError as error:  # printed here: the module that prints errors needs what such a platform lacks
        print(f"error: {error.message} ({error.code})\n\nhint: {error.hints[0]}", file=sys.stderr)
        return error.exit_code
    return 0


def _import_msgspec_fast() -> None:
    """Import msgspec without typing_extensions, which it imports where it is installed but does not need."""
    # typing_extensions is a sixth of the start-up time. A None in sys.modules makes `import` fail as if it were not
    # installed; the entry is removed again, so that a later import by other code works.
    if "msgspec" in sys.modules or "typing_extensions" in sys.modules:
        return
    sys.modules["typing_extensions"] = None  # type: ignore[assignment]
    try:
        import_module("msgspec")
    finally:
        del sys.modules["typing_extensions"]
