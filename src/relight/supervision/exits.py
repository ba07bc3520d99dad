"""The recorded failure of a program that ended by itself: its signal or exit code, and its last words."""

from __future__ import annotations

from typing import Final

from relight.ports.runtime import Exit
from relight.values.status import Failure, StatusChange

FAILURE_BYTES: Final = 4000
"""how much of a program's last output is kept with its failure"""


def exit_failure(exit: Exit, text: str) -> Failure:
    """A failure by an exit code or a signal."""
    fields = {"signal": exit.signal} if exit.signal is not None else {"exit_code": exit.code}
    return Failure(kind="agent_exit", text=text[-FAILURE_BYTES:], fields=dict(fields))


def failed_change(exit: Exit, stderr: list[str], *, deaths: int) -> StatusChange:
    """The status of a program that failed for good, after so many deaths in a row."""
    reason = f"died {deaths} times without progress: {exit}" if deaths > 1 else str(exit)
    return StatusChange(status="failed", reason=reason, failure=exit_failure(exit, "\n".join(stderr)))
