"""Checks of the blob store that holds captured files off the machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from relight.cli.maintenance.doctor.finding import Finding
from relight.errors import RelightError, StoreError, UsageError

if TYPE_CHECKING:
    from relight.library.facade import Relight


def unless_down(what: str, check: Callable[[], Finding]) -> Finding:
    """Run a check. An unreachable blob store becomes a finding, so that the other checks still run."""
    try:
        return check()
    except RelightError as error:
        return Finding(what, f"unknown: {error.message}", False, error.hints[0] if error.hints else "")


def check_blobs(rl: Relight) -> list[Finding]:
    """Try a write, a read and a delete; no finding if files are stored on this machine."""
    try:
        location, is_remote = rl.file_place()
        if not is_remote:
            return []
        rl.probe_files()
    except (StoreError, UsageError) as error:
        text = "; ".join((error.message, *error.evidence[:1]))
        return [Finding("blobs", text, False, error.hints[0] if error.hints else "check RELIGHT_BLOBS")]
    return [Finding("blobs", f"{location}: answers; captured files can be restored on any machine")]
