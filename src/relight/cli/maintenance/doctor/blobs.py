"""The doctor's look at where captured files lie: does a blob store off the machine answer, and keep what it gets?"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from relight.cli.maintenance.doctor.finding import Finding
from relight.errors import RelightError, StoreError, UsageError

if TYPE_CHECKING:
    from relight.library.facade import Relight


def unless_down(what: str, style: Callable[[], Finding]) -> Finding:
    """What was found; where captured files cannot be reached, that, and the rest of the doctor's look goes on."""
    try:
        return style()
    except RelightError as error:
        return Finding(what, f"cannot be said: {error.message}", False, error.hints[0] if error.hints else "")


def check_blobs(rl: Relight) -> list[Finding]:
    """Nothing to say where they lie on this machine; else where, and what a write, a read and a delete came to."""
    try:
        place, is_remote = rl.file_place()
        if not is_remote:
            return []
        rl.probe_files()
    except (StoreError, UsageError) as error:
        said = "; ".join((error.message, *error.evidence[:1]))
        return [Finding("blobs", said, False, error.hints[0] if error.hints else "check RELIGHT_BLOBS")]
    return [Finding("blobs", f"{place}: answers; captured files can be restored on any machine")]
