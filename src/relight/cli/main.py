"""Entry point of the `relight` command."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    _import_msgspec_fast()
    # Completion is answered before click and the verbs are imported: they take longer than the answer.
    if "_RELIGHT_COMPLETE" in os.environ:
        from relight.cli.app.complete import answered

        if answered(os.environ):
            return 0
    from relight.cli.app.group import run

    words = sys.argv[1:] if arguments is None else arguments
    return run(words)


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
