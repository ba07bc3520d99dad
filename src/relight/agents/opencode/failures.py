"""opencode: the error objects that it prints with `--format json`, and those in its database.

Error objects are read by `relight.journal.failures.sdk_errors`, as those of any program are. Here is only what a turn
without an error says. opencode retries a used-up quota by itself, silently; only its last error ends a run.
"""

from __future__ import annotations

from typing import Final

from relight.journal.failures import sdk_errors
from relight.journal.failures.finding import Finding
from relight.journal.failures.lenient import pick
from relight.values.ending import Ending

NAME: Final = "opencode"
PROVIDER: Final = ""
CONTEXT_PROMPT: Final[str | None] = None
_GOES_ON: Final = ("tool-calls", "unknown")


def is_unfinished(ending: Ending) -> bool:
    """Whether it exited with 0 in the middle of a turn."""
    ends = [pick(pick(line, "part"), "reason") for line in ending.lines if pick(line, "type") == "step_finish"]
    begun = any(pick(line, "type") == "step_start" for line in ending.lines)
    return begun and (not ends or ends[-1] in _GOES_ON)


def find(ending: Ending) -> Finding | None:
    """What opencode's own records say about this end, or None."""
    for line in reversed(ending.lines):
        if pick(line, "type") == "step_finish":
            return None if pick(pick(line, "part"), "reason") in _GOES_ON else Finding(kind="ok", source="result")
        if pick(line, "type") == "error":
            break
    return sdk_errors.find(ending)
