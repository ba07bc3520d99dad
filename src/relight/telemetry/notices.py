"""Notices for an operator: printed by relight's own commands and processes, logged in any other program."""

from __future__ import annotations

import os
import sys
from typing import Final

_PRINTED: Final[set[int]] = set()
"""the ids of processes that print: a program forked from one of ours is not ours"""


def print_notices() -> None:
    """From now on this process prints its notices to stderr, unless RELIGHT_HINTS is 0."""
    _PRINTED.add(os.getpid())


def notice(line: str) -> None:
    """Tell something that needs no action: printed in a process of ours, else a warning of the logger."""
    if os.getpid() not in _PRINTED:
        from relight.telemetry.logs import SESSION, warn  # here: a command that only lists does not need it

        warn(SESSION, line, dict.fromkeys(("session", "seq", "attempt", "epoch")))
    elif os.environ.get("RELIGHT_HINTS") != "0":
        print(f"relight: {line}", file=sys.stderr)
