"""`relight`: the entry point. A shell that completes a reference is answered without loading the verbs."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit code."""
    if "_RELIGHT_COMPLETE" in os.environ:
        from relight.cli.completing import answered

        if answered(os.environ):
            return 0
    from relight.cli.group import run

    return run(sys.argv[1:] if arguments is None else arguments)
