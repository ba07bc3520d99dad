"""When files are captured: the policy's moments, decided without a clock or a disk.

`step`: with every step that follows something an agent may have done to its files. `turn`: with every reply, and at the
end. A number: at most once in so many seconds, and at the end. `manual`: only where the program asks.
"""

from __future__ import annotations

from typing import Final, Literal

from relight.errors import UsageError
from relight.values.step import StepKind

Moments = Literal["step", "turn", "manual"] | float
_AFTER_WORK: Final[frozenset[StepKind]] = frozenset({"message", "result", "mark", "status", "state", "reset"})


def check_moments(given: object) -> str | float:
    """The policy, or UsageError."""
    if given in ("step", "turn", "manual"):
        return str(given)
    if isinstance(given, int | float) and not isinstance(given, bool) and given > 0:
        return float(given)
    raise UsageError(f"unknown moment for snapshots: {given!a}", hints=['"step", "turn", "manual", or seconds'])


def is_due(moments: str | float, kind: StepKind, *, is_reply: bool, seconds_since: float) -> bool:
    """Shall this step take a snapshot along? `seconds_since` counts from the last one."""
    if kind not in _AFTER_WORK or moments == "manual":
        return False
    if kind == "status" or moments == "step":
        return True
    if moments == "turn":
        return is_reply
    return isinstance(moments, float) and seconds_since >= moments
