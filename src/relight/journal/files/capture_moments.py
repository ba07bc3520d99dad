"""When files are captured, decided without a clock or a disk.

`step`: with every step after which files may have changed. `turn`: with every reply, and at the end. A number: at most
once in so many seconds, and at the end. `manual`: only when the program asks.
"""

from __future__ import annotations

from typing import Final

from relight.errors import UsageError
from relight.values.step import StepKind

_AFTER_WORK: Final[frozenset[StepKind]] = frozenset({"message", "result", "mark", "status", "state", "reset"})


def check_moments(given: object) -> str | float:
    """The policy if it is valid, else UsageError."""
    if given in ("step", "turn", "manual"):
        return str(given)
    if isinstance(given, int | float) and not isinstance(given, bool) and given > 0:
        return float(given)
    raise UsageError(f"unknown moment for snapshots: {given!r}", hints=['"step", "turn", "manual", or seconds'])


def is_due(moments: str | float, kind: StepKind, *, is_reply: bool, seconds_since: float) -> bool:
    """Whether this step takes a snapshot. `seconds_since` counts from the last one."""
    if kind not in _AFTER_WORK or moments == "manual":
        return False
    if kind == "status" or moments == "step":
        return True
    if moments == "turn":
        return is_reply
    return isinstance(moments, float) and seconds_since >= moments
