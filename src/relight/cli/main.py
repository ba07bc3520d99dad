"""`relight`: the entry point. A shell that completes a reference is answered without loading the verbs."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit code."""
    _import_msgspec_fast()
    if "_RELIGHT_COMPLETE" in os.environ:
        from relight.cli.app.complete import answered

        if answered(os.environ):
            return 0
    from relight.cli.app.group import run

    words = sys.argv[1:] if arguments is None else arguments
    if os.environ.pop("RELIGHT_LOGGED", None) is None:
        return run(words)
    from relight.system.output_log import cleaned_output

    with cleaned_output():
        return run(words)


def _import_msgspec_fast() -> None:
    """Load msgspec without typing_extensions, which it would take where it is installed and does not need.

    A sixth of the time until the first line; this process is ours, and whoever wants the module later still gets it.
    """
    if "msgspec" in sys.modules or "typing_extensions" in sys.modules:
        return
    sys.modules["typing_extensions"] = None  # type: ignore[assignment]
    try:
        import_module("msgspec")
    finally:
        del sys.modules["typing_extensions"]
